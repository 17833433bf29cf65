"""Ranks that come to hold different things are stopped, and what one of them holds is not saved."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.ranks import run_as_processes
from tests.runs.conftest import World
from tests.runs.planted import POSITIONS, WEIGHT

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
STRATEGIES = pytest.mark.parametrize("strategy", ["all_reduce", "tree", "ddp"])


def stopped(world: World, name: str, mistake: str, *overrides: str, ranks: int = 3) -> Path:
    """A run with a mistake planted on rank 1 after step 3, which must end with an error."""
    run = world.folder / name
    arguments = (str(world.settings), str(run), *overrides)
    with pytest.raises(RuntimeError, match="StepError: after step") as caught:
        run_as_processes(
            ranks, f"{PLANTED}:{mistake}", *arguments, timeout_s=120, join=False, patience_s=30
        )
    (run / "error.txt").write_text(str(caught.value).splitlines()[-1])
    return run


def steps_saved(run: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step-*"))


def told(run: Path) -> str:
    return (run / "error.txt").read_text()


@STRATEGIES
def test_a_changed_weight_is_found_by_the_next_check(world: World, strategy: str) -> None:
    run = stopped(
        world, f"changed-{strategy}", "change_a_weight", f"sync.strategy={strategy}",
        "train.check_replicas_every_steps=5",
    )  # fmt: skip
    assert "after step 5 the ranks no longer hold the same: rank 1 differs from the 2" in told(run)
    assert re.search(rf"in 1 of \d+ tensors, {re.escape(WEIGHT)}\.", told(run))
    assert steps_saved(run) == []


@STRATEGIES
def test_a_changed_weight_is_found_before_a_checkpoint(world: World, strategy: str) -> None:
    run = stopped(
        world, f"unsaved-{strategy}", "change_a_weight", f"sync.strategy={strategy}",
        "train.check_replicas_every_steps=null", "checkpoint.every_steps=2",
    )  # fmt: skip
    assert "after step 4 " in told(run)
    assert WEIGHT in told(run)
    assert steps_saved(run) == [2], "those before the change"


def test_a_changed_moment_of_the_optimizer_is_found(world: World) -> None:
    run = stopped(world, "moment", "change_a_moment", "train.check_replicas_every_steps=3")
    assert "after step 3 " in told(run)
    assert re.search(rf"in 1 of \d+ tensors, {re.escape(WEIGHT)}/exp_avg_sq\.", told(run))


def test_a_changed_buffer_is_found(world: World) -> None:
    run = stopped(world, "buffer", "change_a_buffer", "train.check_replicas_every_steps=3")
    assert re.search(rf"in 1 of \d+ tensors, {re.escape(POSITIONS)}\.", told(run))


@pytest.mark.long
def test_the_launcher_says_it_once_and_the_same_command_goes_on(world: World) -> None:
    run = world.folder / "launched-apart"
    arguments = [
        "train", str(world.settings), "--ranks", "2", "--run", str(run), "checkpoint.every_steps=2",
        "train.check_replicas_every_steps=1", "train.max_steps=4", "launch.restarts=0",
    ]  # fmt: skip
    ended = command("-c", "from tests.runs import planted; planted.launch()", *arguments)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.count("error: after step 3 the ranks no longer hold the same") == 1
    assert "Traceback" not in ended.stderr
    assert steps_saved(run) == [2]
    ended = command("-m", "lightwork", *arguments)
    assert ended.returncode == 0, ended.stderr
    assert "training after step 2" in ended.stderr
    assert steps_saved(run) == [2, 4]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@STRATEGIES
def test_healthy_ranks_are_checked_after_every_step_and_go_on(world: World, strategy: str) -> None:
    run = world.train(
        2, f"healthy-{strategy}", f"sync.strategy={strategy}", "model.dropout=0.1",
        "train.check_replicas_every_steps=1", "checkpoint.every_steps=3",
    )  # fmt: skip
    lines = (run / "metrics/rank0.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == list(range(1, steps[-1] + 1))
    assert steps_saved(run)[-1] == steps[-1]
