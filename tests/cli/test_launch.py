"""``lightwork launch``: what it starts, and what it says when that makes no sense."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lightwork.comm.supervisor import Launch
from tests.cli.conftest import Command


class Started(list[Launch]):
    """What the supervisor was asked to start; it answers ``code``."""

    code = 0

    def supervise(self, launch: Launch) -> int:
        self.append(launch)
        if launch.ranks > 1:
            launch.log_dir.mkdir(parents=True, exist_ok=True)
        return self.code


@pytest.fixture
def started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Started:
    """Beside a script ``s.py``."""
    asked = Started()
    monkeypatch.setattr("lightwork.cli.launch.supervise", asked.supervise)
    (folder / "s.py").write_text("import lightwork\n")
    return asked


def test_what_stands_behind_the_script_is_its_own(started: Started, command: Command) -> None:
    words = ["s.py", "--epochs", "3", "more", "--help", "--ranks=5", "--", "-x"]
    ended = command("launch", "--ranks", "2", *words)
    assert (ended.code, ended.err) == (0, "")
    (launch,) = started
    assert launch.command == (sys.executable, *words)
    assert launch.ranks == 2
    assert not launch.log_dir.exists(), "logs of a good end are not kept"


def test_logs_are_kept_where_they_are_wanted_or_needed(
    folder: Path, started: Started, command: Command
) -> None:
    command("launch", "--ranks", "2", "--logs", "mine", "s.py")
    assert started[0].log_dir == Path("mine")
    assert (folder / "mine").is_dir()
    started.code = 3
    assert command("launch", "--ranks", "2", "s.py").code == 3
    assert started[1].log_dir.is_dir()
    started[1].log_dir.rmdir()
    assert started[0].run_id != started[1].run_id


@pytest.mark.parametrize(
    ("gpus", "asked", "ranks"), [(0, None, 1), (3, None, 3), (3, 2, 2), (0, 4, 4)]
)
def test_ranks(
    started: Started,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    asked: int | None,
    ranks: int,
) -> None:
    monkeypatch.setattr("lightwork.cli.launch.visible_gpus", lambda environ: gpus)
    command("launch", *([] if asked is None else ["--ranks", str(asked)]), "s.py")
    assert started[0].ranks == ranks


def test_more_ranks_than_gpus(
    started: Started, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.cli.launch.visible_gpus", lambda environ: 2)
    ended = command("launch", "--ranks", "3", "s.py")
    assert ended.code == 2
    assert "only 2 GPUs are visible" in ended.err
    assert started == []


def test_chosen_devices_are_all_that_ranks_see(
    started: Started, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.cli.launching._present_gpus", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    command("launch", "--devices", "2,3", "s.py")
    assert started[0].environment["CUDA_VISIBLE_DEVICES"] == "6,7"
    assert started[0].ranks == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope.py", "--epochs", "3"], "the script nope.py (looked at {folder}/nope.py) does not"),
        (["."], "is a folder; give a Python file"),
        (["--rank", "2", "s.py"], "No such option: --rank"),
        ([], "Missing argument 'SCRIPT.py'"),
    ],
)
def test_mistakes(
    folder: Path, started: Started, command: Command, words: list[str], says: str
) -> None:
    ended = command("launch", *words)
    assert ended.code == 2
    assert says.format(folder=folder) in ended.err
    assert started == []


def test_options_that_came_too_late_are_pointed_out_after_a_failure(
    started: Started, command: Command
) -> None:
    started.code = 2
    assert "--ranks stood behind the script" in command("launch", "s.py", "--ranks", "4").err


def test_a_script_that_does_not_connect_is_pointed_out(
    folder: Path, started: Started, command: Command
) -> None:
    (folder / "plain.py").write_text("import torch\n")
    assert "does not mention lightwork" in command("launch", "--ranks", "2", "plain.py").err
    assert command("launch", "plain.py").err == ""


def test_a_rank_of_another_launcher_starts_no_ranks(
    started: Started, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    ended = command("launch", "s.py")
    assert ended.code == 2
    assert "leave out one of the two" in ended.err
    assert started == []
