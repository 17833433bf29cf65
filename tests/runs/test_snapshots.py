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


def dies(world: World, ranks: int, name: str, step: int, *overrides: str) -> None:
    arguments = (str(world.settings), str(world.folder / name), str(step), *overrides)
    with pytest.raises(RuntimeError, match="ended without a word"):
        run_as_processes(ranks, f"{PLANTED}:die", *arguments, timeout_s=120, join=False)


def in_memory(run: Path) -> Path:
    run_id = json.loads((run / "run.json").read_text())["run_id"]
    return Path(f"/dev/shm/lightwork-{os.getuid()}/{run_id}")


def test_after_a_death_steps_are_lost_and_no_bit(world: World) -> None:
    whole = world.train(1, "never-died", *OPTIONS[:3])
    run = world.folder / "died"
    dies(world, 2, "died", 6, *OPTIONS)
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


def test_killed_twice_at_other_numbers_of_ranks_the_bits_and_the_windows_are_those_of_one_start(
    world: World,
) -> None:
    options = (*OPTIONS[:3], "checkpoint.every_steps=2")
    whole = world.train(2, "never-killed", *options)
    run = world.folder / "killed-twice"
    dies(world, 1, "killed-twice", 4, *options)
    dies(world, 3, "killed-twice", 8, *options)
    world.train(2, "killed-twice", *options)
    assert weights_digest(run) == weights_digest(whole)
    learned: dict[int, dict[int, int]] = {}
    for path in sorted(run.glob("metrics/rank*.jsonl")):
        for record in map(json.loads, path.read_text().splitlines()):
            attempts = learned.setdefault(record["step"], {})
            attempts[record["attempt"]] = attempts.get(record["attempt"], 0) + record["windows"]
    assert sorted(learned) == steps(whole)
    assert max(attempt for of in learned.values() for attempt in of) == 3
    survived = [of[max(of)] for _, of in sorted(learned.items())]
    of_one = [json.loads(line)["batch_windows"] for line in
              (whole / "metrics/rank0.jsonl").read_text().splitlines()]  # fmt: skip
    assert survived == of_one, "each window of each batch on some rank, and on one only"
