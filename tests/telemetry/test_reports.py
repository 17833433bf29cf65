"""What people reported of other tools about the output of many ranks, and how it is here."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from lightwork.assembly import verifying
from lightwork.comm.supervisor import Launch, supervise
from lightwork.telemetry import progress
from lightwork.telemetry.logs import logging_to
from lightwork.telemetry.progress import counting
from tests.conftest import ROOT
from tests.runs.conftest import SETTINGS, questions

ESCAPE = re.compile(r"\x1b\[")

FAILS = """
import os, pathlib, sys, time, traceback
rank, folder = os.environ["RANK"], pathlib.Path(sys.argv[1])
def together(number):
    (folder / f"{number}-{rank}").touch()
    while len(list(folder.glob(f"{number}-?"))) < 3:
        time.sleep(0.001)
def outer():
    inner()
def inner():
    raise ArithmeticError(f"a bug of rank {rank}")
for number in range(20):
    together(number)
    try:
        outer()
    except ArithmeticError:
        traceback.print_exc()
together("end")
sys.exit(1)
"""
"""All ranks write tracebacks at the same time, again and again."""
TRACE = """\
Traceback \\(most recent call last\\):
  File .*, in <module>
  File .*, in outer
  File .*, in inner
ArithmeticError: a bug of rank {rank}
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Two ranks that train two steps."""
    for name, content in (("train", questions(50)), ("dev", questions(17, 100))):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "tiny.yaml").write_text(SETTINGS.format(folder=tmp_path))
    return [
        sys.executable, "-m", "lightwork", "train", str(tmp_path / "tiny.yaml"), "--ranks", "2",
        "--run", str(tmp_path / "run"), "train.max_steps=2",
    ]  # fmt: skip


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FORCE_COLOR": "1"}


@pytest.mark.processes
def test_one_bar_on_a_terminal(tmp_path: Path, command: list[str]) -> None:
    """Lightning-AI/pytorch-lightning#4364: a bar from every rank."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, env={**ENVIRONMENT, "TERM": "xterm"}, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        shown = b""
        with suppress(OSError):  # how a terminal ends whose last writer has gone
            while piece := os.read(master, 1 << 16):
                shown += piece
        assert process.wait(timeout=60) == 0, shown
    os.close(master)
    assert "2/2" in shown.decode()
    assert ESCAPE.search(shown.decode())
    other = (tmp_path / "run/logs/rank1.log").read_text()
    assert not ESCAPE.search(other), "nothing of a bar on another rank"
    assert "windows/s" not in other


@pytest.mark.processes
def test_no_bar_in_a_file(tmp_path: Path, command: list[str]) -> None:
    """The same report: in a batch system a bar fills the file, where colours are asked for too."""
    ended = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    steps = [line.split()[1] for line in ended.stderr.splitlines() if "windows/s" in line]
    assert steps == ["1/2", "2/2"]
    for text in (ended.stdout, ended.stderr, (tmp_path / "run/logs/rank1.log").read_text()):
        assert not ESCAPE.search(text)


def test_of_ranks_that_count_the_same_one_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same report, for ranks that another launcher gave one terminal."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True)
    monkeypatch.setattr(progress, "terminal", lambda: console)
    with counting("verify", shown=False) as move:
        move(1, 2)
    assert screen.getvalue() == ""
    with counting("verify") as move:
        move(1, 2)
    assert "1/2" in screen.getvalue()


def test_verify_is_shown_by_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    @contextmanager
    def noted(_: str, shown_here: bool = True, **given: bool) -> Iterator[Any]:
        shown.append(given.get("shown", shown_here))
        yield lambda _done, _total: None

    monkeypatch.setattr(verifying, "counting", noted)
    monkeypatch.setattr(verifying, "check_all", lambda _: [])
    monkeypatch.setattr(verifying, "_subject", lambda _: None)
    monkeypatch.setattr(verifying, "_title", lambda _: "")
    for rank in (0, 1):
        start: Any = SimpleNamespace(group=SimpleNamespace(rank=rank))
        assert verifying.verify(start) == []
    assert shown == [True, False]


@pytest.mark.processes
def test_tracebacks_of_all_ranks_stay_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """pytorch/pytorch#60911: those of all ranks were mixed line by line.

    And torch-spyre/torch-spyre#3835: of rank 1, which had the reason, nothing was kept.
    """
    logs, folder = tmp_path / "logs", tmp_path / "meeting"
    folder.mkdir()
    command = (sys.executable, "-c", FAILS, str(folder))
    assert supervise(Launch(command, 3, "run", logs, os.environ, 5.0)) == 1
    told = capfd.readouterr().err
    assert re.match(f"({TRACE.format(rank=0)}){{20}}rank [012] of 3 ended with exit code 1", told)
    for rank in (1, 2):
        text = (logs / f"rank{rank}.log").read_text()
        assert re.fullmatch(f"({TRACE.format(rank=rank)}){{20}}", text)


def test_files_go_by_the_rank_of_the_whole_run(tmp_path: Path) -> None:
    """pytorch/pytorch#60911: on a second machine local ranks begin at 0 again."""
    for rank in (0, 8):
        with logging_to(tmp_path, rank) as log:
            log.info("of %d", rank)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.log", "rank8.log"]
    assert re.fullmatch(r"[-\d]+ [:,\d]+ rank 8 INFO of 8\n", (tmp_path / "rank8.log").read_text())
