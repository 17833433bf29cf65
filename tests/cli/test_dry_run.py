"""A dry run has a folder of its own and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightwork.comm.supervisor import Launch
from lightwork.settings import read_run

Command = Callable[..., Any]


def test_a_dry_run_has_a_folder_of_its_own(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    ended = command("train", "s.yaml", "--dry-run", "--ranks", "2")
    (launch,) = launches
    assert launch.command[-1] == "--dry-run"
    used = Path(launch.command[-2])
    assert [used.name] == [path.name for path in Path("runs").iterdir()]
    assert used.name.startswith("s-")
    assert used.name.endswith(".dry-run")
    assert f"the logs of the dry run are in runs/{used.name}/logs" in ended.err, "it failed: 7"
    command("train", "s.yaml", "--dry-run", "train.seed=3", "--run", "mine")
    assert launches[-1].command[-2] == str(folder / "mine.dry-run")
    command("train", "s.yaml", "--dry-run", "--run", "mine")  # that one was killed
    assert read_run(Path("mine.dry-run")).identity["train.seed"] == 42
    command("train", "mine.dry-run", "--dry-run")
    assert not Path("mine.dry-run.dry-run").exists()


def test_a_dry_run_that_shows_a_mistake_leaves_nothing(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.cli.launching.supervise", lambda launch: 2)
    assert command("train", "s.yaml", "--dry-run").code == 2
    assert list(Path("runs").iterdir()) == []


def test_a_dry_run_never_removes_what_is_no_run(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    (folder / "mine.dry-run").mkdir()
    (folder / "mine.dry-run" / "thesis.txt").write_text("years of work")
    ended = command("train", "s.yaml", "--dry-run", "--run", "mine")
    assert ended.code == 2
    assert "holds files but no run.json" in ended.err
    assert (folder / "mine.dry-run" / "thesis.txt").exists()
