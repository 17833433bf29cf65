"""``lightwork verify``: what is started, where, and what is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightwork.comm.supervisor import Launch
from lightwork.errors import VerifyError
from lightwork.settings import load_settings
from tests.cli.conftest import Assembly, Command


@pytest.fixture(autouse=True)
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the system's temporary folders are."""
    place = folder / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def test_ranks_start_in_a_folder_that_holds_the_settings(
    command: Command, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    asked: list[Launch] = []

    def supervise(launch: Launch) -> int:
        asked.append(launch)
        used = Path(launch.command[-1])
        assert used.parent == temporary
        assert load_settings(used / "settings.yaml", []).train.seed == 7
        assert json.loads((used / "run.json").read_text())["run_id"] == launch.run_id
        return 0

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    assert command("verify", "s.yaml", "train.seed=7", "--ranks", "3").code == 0
    (launch,) = asked
    assert launch.command[-2] == "verify"
    assert launch.ranks == 3
    assert list(temporary.iterdir()) == []
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("code", "kept"), [(0, False), (2, False), (130, False), (143, False), (1, True), (137, True)]
)
def test_logs_are_kept_only_after_what_nobody_foresaw(
    command: Command, monkeypatch: pytest.MonkeyPatch, temporary: Path, code: int, kept: bool
) -> None:
    monkeypatch.setattr("lightwork.cli.launching.supervise", lambda launch: code)
    ended = command("verify", "s.yaml")
    assert ended.code == code
    left = list(temporary.iterdir())
    assert len(left) == kept
    assert ("the logs are in" in ended.err) == kept
    assert not kept or f"{left[0]}/logs" in ended.err


def test_rows_that_failed_leave_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    def supervise(launch: Launch) -> int:
        for path in Path(launch.command[-1]).iterdir():
            path.unlink()
        Path(launch.command[-1]).rmdir()  # as rank 0 does
        return 1

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    ended = command("verify", "s.yaml")
    assert ended.code == 1
    assert "logs" not in ended.err


def test_mistakes_leave_nothing(
    command: Command, launches: list[Launch], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("verify", "nope.yaml").code == 2
    assert command("verify", "s.yaml", "train.x=1").code == 2
    assert command("verify", "s.yaml", "--devices", "0").code == 2
    monkeypatch.setenv("RANK", "0")
    assert "another launcher" in command("verify", "s.yaml", "--ranks", "2").err
    assert launches == []
    assert list(temporary.iterdir()) == []


def test_a_rank_of_ours_uses_the_folder_that_it_was_given(
    command: Command, assembly: Assembly, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.cli.launching.supervise", lambda launch: 0)
    command("train", "s.yaml", "--run", "mine")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LIGHTWORK_RUN_ID", "x")
    assert command("verify", "mine").code == 0
    ((name, (settings, used)),) = assembly.calls
    assert (name, used) == ("run_verify", Path("mine"))
    assert settings.data.train == (folder / "train.json",)


@pytest.mark.parametrize(("error", "code"), [(None, 0), (VerifyError("1 of 9"), 1)])
def test_a_rank_of_another_launcher_has_a_folder_of_its_own(
    command: Command,
    assembly: Assembly,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
    code: int,
) -> None:
    monkeypatch.setattr("lightwork.cli.launching.supervise", lambda launch: 0)
    command("train", "s.yaml", "--run", "mine")
    monkeypatch.setenv("RANK", "0")
    assembly.error = error
    assert command("verify", "mine").code == code
    ((_, (_, used)),) = assembly.calls
    assert used.parent == temporary, "never that of a run"
    assert list(temporary.iterdir()) == []
    assert Path("mine/run.json").exists()
