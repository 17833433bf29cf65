"""A run that dies between two checkpoints goes on from the snapshot, and to the same bits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.ranks import run_as_processes
from tests.runs.conftest import World, weights_digest
from tests.runs.test_stopping import asked_to_leave, saved, steps

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted_ends.py")
OPTIONS = (
    "sync.strategy=tree", "train.shares=4", "model.dropout=0.1",
    "checkpoint.snapshot_every_steps=2",
)  # fmt: skip


def in_memory(run: Path) -> Path:
    run_id = json.loads((run / "run.json").read_text())["run_id"]
    return Path(f"/dev/shm/lightwork-{os.getuid()}/{run_id}")


def test_after_a_death_steps_are_lost_and_no_bit(world: World) -> None:
    whole = world.train(1, "never-died", *OPTIONS[:3])
    run = world.folder / "died"
    arguments = (str(world.settings), str(run), *OPTIONS)
    with pytest.raises(RuntimeError):
        run_as_processes(2, f"{PLANTED}:die_in_step_6", *arguments, timeout_s=120, join=False)
    assert saved(run) == []
    assert [path.name for path in (in_memory(run) / "checkpoints").glob("step-*")] == [
        "step-000004"
    ]
    world.train(3, "died", *OPTIONS[:3])
    assert steps(run) == [1, 2, 3, 4, 5, *range(5, steps(whole)[-1] + 1)]
    assert "going on from the snapshot in memory" in (run / "logs/rank0.log").read_text()
    assert weights_digest(run) == weights_digest(whole)


def test_nothing_stays_in_memory_after_an_end_in_order(world: World) -> None:
    run = world.train(2, "whole-snapshots", "train.max_steps=5", OPTIONS[-1])
    assert not in_memory(run).exists()
    assert asked_to_leave(world, "a_signal_in_step_3", "left", OPTIONS[-1]) == [143, 143]
    assert not in_memory(world.folder / "left").exists()
