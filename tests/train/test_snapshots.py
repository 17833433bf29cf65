"""Snapshots in memory: which is gone on from, and whose files are never touched."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lightwork.train.checkpoint import Checkpoints, Part
from lightwork.train.snapshots import Snapshots


def parts(step: int, attempt: int = 1) -> list[Part]:
    state: dict[str, Any] = {"step": step, "attempt": attempt}
    return [Part("optimizer", {"w": torch.full((4,), float(step))}), Part("state", state)]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


@pytest.fixture
def kept(memory: Path) -> Snapshots:
    """With that of step 20 of attempt 2."""
    made = Snapshots("abc", memory)
    made.save(10, parts(10, 2))
    made.save(20, parts(20, 2))
    return made


def on_disk(run: Path, step: int, attempt: int) -> Path:
    return Checkpoints(run, "abc").write(step, parts(step, attempt))


def test_the_newest_alone_is_kept_for_nobody_else_to_see(kept: Snapshots, memory: Path) -> None:
    found = kept.newer_than(None)
    assert found is not None
    assert [path.name for path in found.parent.iterdir()] == ["step-000020"]
    assert found.parents[2].stat().st_mode & 0o077 == 0
    assert Snapshots("other", memory).newer_than(None) is None


@pytest.mark.parametrize(
    ("step", "attempt", "newer"),
    [
        (10, 1, True),
        (10, 2, True),
        (20, 2, False),  # the disk is as new
        (30, 2, False),
        (10, 3, False),  # the run went on from elsewhere after this snapshot
    ],
)
def test_it_counts_where_it_goes_on_from_the_newest_checkpoint(
    kept: Snapshots, tmp_path: Path, step: int, attempt: int, newer: bool
) -> None:
    found = kept.newer_than(on_disk(tmp_path / "run", step, attempt))
    assert (found is not None) is newer


def test_a_damaged_one_is_passed_over(kept: Snapshots, caplog: pytest.LogCaptureFixture) -> None:
    found = kept.newer_than(None)
    assert found is not None
    (found / "optimizer.safetensors").write_bytes(b"torn")
    assert kept.newer_than(None) is None
    assert "in memory, the checkpoint step-000020 is damaged and passed over" in caplog.text


def test_what_is_given_back_is_gone(kept: Snapshots, memory: Path) -> None:
    other = Snapshots("other", memory)
    other.save(5, parts(5))
    kept.remove()
    assert kept.newer_than(None) is None
    assert other.newer_than(None) is not None


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_can_write_to_is_not_trusted(
    memory: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    kept = Snapshots("abc", memory)
    kept.save(10, parts(10))
    (own,) = memory.iterdir()
    own.chmod(mode)
    assert kept.newer_than(None) is None
    kept.remove()
    assert any(own.iterdir()), "it is not touched either"
    kept.save(20, parts(20))
    assert f"{own} belongs to somebody else" in caplog.text


def test_a_link_in_its_place_is_not_followed(memory: Path, tmp_path: Path) -> None:
    kept = Snapshots("abc", memory)
    kept.save(10, parts(10))
    (own,) = memory.iterdir()
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / "elsewhere")
    assert kept.newer_than(None) is None


def test_too_little_memory_is_said_once_and_training_goes_on(
    kept: Snapshots, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with caplog.at_level(logging.WARNING):
        kept.save(30, parts(30))
        kept.save(40, parts(40))
    assert caplog.text.count("no snapshots are kept in memory") == 1
    assert "give it more with --shm-size" in caplog.text
    assert kept.newer_than(None) is None, "an old one would be of no use and takes memory"


def test_where_there_is_no_such_file_system(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Snapshots("abc", tmp_path / "none").save(1, parts(1))
    assert "is no folder here" in caplog.text
    assert not (tmp_path / "none").exists()


def test_the_memory_of_deleted_runs_is_taken_back(memory: Path, tmp_path: Path) -> None:
    for name in ("kept", "deleted"):
        (tmp_path / name).mkdir()
        Snapshots(name, memory, tmp_path / name).save(5, parts(5))
    (tmp_path / "deleted").rmdir()
    Snapshots("kept", memory, tmp_path / "kept").save(6, parts(6))
    assert Snapshots("deleted", memory).newer_than(None) is not None, "a later save does not look"
    (tmp_path / "new").mkdir()
    Snapshots("new", memory, tmp_path / "new").save(5, parts(5))
    (own,) = memory.iterdir()
    assert sorted(path.name for path in own.iterdir()) == ["kept", "new"]
