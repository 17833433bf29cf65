"""What is left behind, and said, when training ends early."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.comm.supervisor import Launch
from tests.cli.conftest import Command


def ends_with(monkeypatch: pytest.MonkeyPatch, code: int, saved: bool = False) -> None:
    """Let the supervisor end with ``code``, after a checkpoint if ``saved``."""

    def supervise(launch: Launch) -> int:
        launch.log_dir.mkdir(exist_ok=True)
        if saved:
            (launch.log_dir.parent / "checkpoints").mkdir()
        return code

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)


def test_a_mistake_found_by_the_ranks_leaves_no_run(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(monkeypatch, 2)
    assert command("train", "s.yaml", "--run", "new").code == 2
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("code", "saved"), [(1, False), (2, True), (137, False)])
def test_any_other_end_keeps_it(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, code: int, saved: bool
) -> None:
    ends_with(monkeypatch, code, saved)
    assert command("train", "s.yaml", "--run", "new").code == code
    assert (folder / "new/run.json").exists()


def test_a_run_that_was_there_before_is_never_removed(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in (1, 2):
        ends_with(monkeypatch, code)
        command("train", "s.yaml", "--run", "old")
    assert (folder / "old/run.json").exists()


@pytest.mark.usefixtures("folder")
def test_an_interrupted_run_says_how_to_go_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(monkeypatch, 130)
    ended = command("train", "s.yaml", "--run", "mine")
    assert ended.code == 130
    assert "stopped by SIGINT; the same command begins again" in ended.err
    for step in (5, 20):
        saved = Path(f"mine/checkpoints/step-{step:06d}")
        saved.mkdir(parents=True)
        (saved / "manifest.json").touch()
    ended = command("train", "s.yaml", "--run", "mine")
    assert "stopped by SIGINT; the same command goes on from step-000020 in mine" in ended.err
