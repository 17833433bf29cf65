"""Whole runs with train.seed: random: one number on all ranks, and the run can be repeated."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightwork.assembly import opening
from lightwork.comm.group import Group
from lightwork.errors import LaunchError
from lightwork.settings import RunRecord, load_settings, read_run
from tests.ranks import run_as_threads
from tests.runs.conftest import World, weights_digest

SHORT = ("train.max_steps=3", "train.deterministic=true", "model.dropout=0.1")
TORCHRUN = (
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
    "-m", "lightwork", "train",
)  # fmt: skip


def seed_of(run: Path) -> int:
    seed = read_run(run).identity["train.seed"]
    assert type(seed) is int
    return seed


@pytest.mark.processes
def test_it_is_the_run_of_the_number_that_was_drawn(world: World) -> None:
    run = world.train(2, "drawn", "train.seed=random", *SHORT)
    seed = seed_of(run)
    state = json.loads((run / "checkpoints/step-000003/state.json").read_text())
    assert (state["identity"]["train.seed"], state["cutting"]["seed"]) == (seed, seed)
    again = world.train(2, "drawn-again", f"train.seed={seed}", *SHORT)
    assert weights_digest(again) == weights_digest(run)
    world.train(2, "drawn", "train.seed=random", *SHORT)
    assert "this run is finished" in (run / "logs/rank0.log").read_text()
    assert seed_of(run) == seed
    other = world.train(1, "drawn-other", "train.seed=random", *SHORT)
    assert seed_of(other) != seed
    assert weights_digest(other) != weights_digest(run)


@pytest.mark.long
@pytest.mark.processes
def test_ranks_of_another_launcher_agree_on_one(world: World) -> None:
    run = world.folder / "drawn-torchrun"
    arguments = (str(world.settings), "--run-folder", str(run), "train.seed=random", *SHORT)
    ended = subprocess.run(
        [*TORCHRUN, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    seed = seed_of(run)
    told = f"train.seed is random: {seed} in this run; lightwork train {run} goes on with it"
    assert ended.stderr.count(told) == 1
    assert f"seed: {seed}\n" in (run / "settings.yaml").read_text()
    again = world.train(2, "drawn-torchrun-again", f"train.seed={seed}", *SHORT)
    assert weights_digest(again) == weights_digest(run)


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [("random", "random", True), ("random", "7", False), ("7", "random", False)],
)
def test_what_was_asked_for_is_compared_and_not_what_was_drawn(
    world: World, tmp_path: Path, first: str, second: str, agree: bool
) -> None:
    def begin(group: Group) -> RunRecord | str:
        asked = [first, second][group.rank]
        settings = load_settings(world.settings, [f"train.seed={asked}"])
        try:
            return opening.begin(group, settings, tmp_path / "run", "cpu")
        except LaunchError as error:
            return str(error)

    (tmp_path / "run").mkdir()
    one, other = run_as_threads(2, begin)
    assert one == other
    assert isinstance(one, RunRecord) is agree
