"""The product killed in the middle of training: nothing is left running, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.runs.conftest import World

pytestmark = pytest.mark.processes
START_S, END_S = 120.0, 20.0
OURS = [sys.executable, "-m", "lightwork", "train"]
TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
    "-m", "lightwork", "train",
]  # fmt: skip
LAUNCHERS = pytest.mark.parametrize(
    "launcher", ["lightwork", pytest.param("torchrun", marks=pytest.mark.long)]
)


Started = tuple[subprocess.Popen[str], list[psutil.Process]]
"""The launcher, and the processes of its ranks."""


def command(launcher: str, world: World, run: Path) -> list[str]:
    endless = ["train.epochs=100000", "train.evaluate_every_steps=900000"]
    endless += ["checkpoint.every_steps=5", "launch.restarts=0"]
    start = [*OURS, "--ranks", "2"] if launcher == "lightwork" else TORCHRUN
    return [*start, str(world.settings), "--run-folder", str(run), *endless]


@contextmanager
def training(launcher: str, world: World, run: Path) -> Iterator[Started]:
    """A run that has written a checkpoint and goes on; afterwards, all its processes are gone."""
    process = subprocess.Popen(
        command(launcher, world, run),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    family = [psutil.Process(process.pid)]
    earlier = set(run.glob("checkpoints/step-*"))
    try:
        deadline = time.monotonic() + START_S
        while set(run.glob("checkpoints/step-*")) <= earlier:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "no checkpoint was written"
            time.sleep(0.1)
        family += family[0].children(recursive=True)
        yield process, [p for p in family if "RANK" in p.environ() and p.pid != process.pid]
        gone, left = psutil.wait_procs(family, timeout=END_S)
        assert not left, "processes were left"
        assert len(gone) >= 3
    finally:
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.communicate()


@pytest.mark.long
@LAUNCHERS
def test_a_killed_rank_ends_all(launcher: str, world: World, tmp_path: Path) -> None:
    with training(launcher, world, tmp_path / "run") as (process, ranks):
        victim = next(p for p in ranks if p.environ()["RANK"] == "1")
        victim.send_signal(signal.SIGKILL)
        text = process.communicate(timeout=END_S + 20)[0]
        assert process.returncode != 0
        if launcher == "lightwork":
            assert "rank 1" in text
            assert "SIGKILL" in text


@LAUNCHERS
def test_a_killed_launcher_takes_its_ranks_along(
    launcher: str, world: World, tmp_path: Path
) -> None:
    with training(launcher, world, tmp_path / "run") as (process, _):
        process.send_signal(signal.SIGKILL)
        assert process.wait(END_S) == -signal.SIGKILL


@pytest.mark.long
@LAUNCHERS
def test_control_c_ends_all(launcher: str, world: World, tmp_path: Path) -> None:
    with training(launcher, world, tmp_path / "run") as (process, _):
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(END_S) != 0


def test_after_a_kill_the_run_goes_on_and_a_second_one_is_refused(
    world: World, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with training("lightwork", world, run) as (process, _):
        second = subprocess.run(
            command("lightwork", world, run), capture_output=True, text=True, check=False
        )
        assert second.returncode == 2
        assert second.stderr.count("is in use by another training") == 1
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    saved = max(int(path.name[5:]) for path in run.glob("checkpoints/step-*"))
    with training("lightwork", world, run) as (process, _):
        deadline = time.monotonic() + START_S
        while True:
            lines = (run / "metrics/rank1.jsonl").read_text().splitlines()[1:]
            again = [r["step"] for r in map(json.loads, lines[:-1]) if r["attempt"] > 1]
            if again:
                break
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert again[0] >= saved + 1
        os.killpg(process.pid, signal.SIGINT)
