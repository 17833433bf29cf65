"""Whole runs whose processes are killed or stopped: they go on by themselves, and nothing is lost.

Small models; most of the time goes into starting Python. What takes long is run by ``make faults``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.processes.faulty import FAULTS
from tests.runs.conftest import World, weights_digest

pytestmark = pytest.mark.processes
STEPS = 8
WHOLE = (
    f"train.max_steps={STEPS}", "train.shares=2", "sync.strategy=tree", "model.dropout=0.1",
    "checkpoint.every_steps=2", "train.evaluate_every_steps=4",
)  # fmt: skip
LIMIT_S = 300.0


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    said: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Data, settings and a cache."""
    return World(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def digest(world: World) -> str:
    """Of what a run without any fault learns."""
    return weights_digest(world.train(2, "undisturbed", *WHOLE))


def train(world: World, name: str, faults: str, *overrides: str) -> Ended:
    """``lightwork train`` with two ranks and these faults; no process of it may be left."""
    launch = "from tests.processes import faulty; faulty.launch()"
    arguments = ["train", str(world.settings), "--ranks", "2", "--run", str(world.folder / name)]
    ended = subprocess.run(
        [sys.executable, "-c", launch, *arguments, *WHOLE, *overrides],
        cwd=ROOT,
        env={**os.environ, FAULTS: faults},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    deadline = time.monotonic() + 10
    while left(world.folder / name):
        assert time.monotonic() < deadline, "processes were left"
        time.sleep(0.1)
    return Ended(ended.returncode, ended.stderr)


def left(run: Path) -> list[int]:
    """Processes that work on this run."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(run) in (process.info["cmdline"] or [])
    ]


def failures(world: World, name: str) -> list[dict[str, object]]:
    lines = (world.folder / name / "restarts.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == "failure"]


def test_a_killed_rank_leaves_the_bits_as_they_are(world: World, digest: str) -> None:
    ended = train(world, "killed", "0:1:backward:4:SIGKILL")
    assert ended.code == 0, ended.said
    assert (
        "rank 1 was ended by SIGKILL (often because memory ran out) in step 4 (backward); attempt "
        "2 of at most 11 "
    ) in ended.said
    assert weights_digest(world.folder / "killed") == digest
    assert [line["step"] for line in failures(world, "killed")] == [4]


@pytest.mark.long
@pytest.mark.parametrize(
    "faults",
    [
        "0:0:save:4:SIGKILL 1:1:backward:6:SIGKILL",
        "0:1:prepare:0:SIGKILL 1:1:evaluate:4:SIGKILL",
        "0:0:control:3:SIGSEGV 1:1:sync:7:SIGABRT",
    ],
)
def test_wherever_it_happens(world: World, digest: str, faults: str) -> None:
    name = f"wherever-{faults.split(':')[2]}"
    ended = train(world, name, faults)
    assert ended.code == 0, ended.said
    assert len(failures(world, name)) == 2
    assert weights_digest(world.folder / name) == digest


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_rank(world: World, digest: str, rank: int) -> None:
    faults = f"0:{rank}:forward:5:SIGSTOP"
    ended = train(world, f"stopped{rank}", faults, "launch.hang_timeout_s=10")
    assert ended.code == 0, ended.said
    (failure,) = failures(world, f"stopped{rank}")
    assert (failure["rank"], failure["step"]) == (rank, 5)
    assert f"rank {rank} has made no progress for 10 s in step 5 (forward) with" in ended.said
    assert "its process is stopped (by SIGSTOP, or by a debugger); the others wait" in ended.said
    assert weights_digest(world.folder / f"stopped{rank}") == digest


@pytest.mark.long
def test_the_same_step_three_times(world: World) -> None:
    ended = train(world, "same", "*:1:backward:4:SIGKILL")
    assert ended.code == 137
    last = ended.said.splitlines()[-1]
    assert last.startswith("step 4 has failed 3 times; the examples at work were q")
    assert "rank 1 of 2 was ended by SIGKILL" in ended.said, "told once, above"
    assert "; the examples at work were q" in last
    assert len(failures(world, "same")) == 3
    assert train(world, "same", "0:1:backward:4:SIGKILL").code == 137, "once, not three times"
    assert train(world, "same", "").code == 0


@pytest.mark.long
def test_the_count_is_used_up(world: World) -> None:
    faults = "0:0:forward:3:SIGKILL 1:1:forward:4:SIGKILL"
    ended = train(world, "used-up", faults, "launch.restarts=1")
    assert ended.code == 137
    assert "this was attempt 2, and launch.restarts allows no more" in ended.said
    assert train(world, "used-up", "", "launch.restarts=1").code == 0


@pytest.mark.long
def test_a_killed_launcher(world: World, digest: str) -> None:
    assert train(world, "launcher", "0:1:forward:5:LAUNCHER").code == -9
    ended = train(world, "launcher", "0:1:forward:7:SIGKILL", "launch.restarts=2")
    assert ended.code == 0, ended.said
    assert "attempt 2 of at most 3 goes on from step-000006" in ended.said
    assert weights_digest(world.folder / "launcher") == digest
