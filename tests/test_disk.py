"""What is written beside its place takes it whole, or what was there stays."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from lightwork.disk import Storage, remove, replacing, scratch_folder


def make(path: Path, kind: str, text: str) -> None:
    if kind == "folder":
        path.mkdir(parents=True)
        (path / "inside").write_text(text)
    elif kind == "file":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def seen(path: Path) -> str | None:
    if path.is_dir():
        return (path / "inside").read_text()
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize("new", ["file", "folder"])
@pytest.mark.parametrize("before", ["nothing", "file", "folder"])
@pytest.mark.parametrize("failure", ["", "writing", "moving", "flushing"])
def test_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str, before: str, failure: str
) -> None:
    target = tmp_path / "deep" / "target"
    make(target, before, "old")
    make(tmp_path / "deep" / ".target.part", new, "left by a kill")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def full_for_the_new(storage: Storage, path: Path, target: Path) -> None:
        if path.name.endswith(".part"):
            full()
        path.rename(target)

    def write() -> None:
        with replacing(target) as path:
            make(path, new, "new")
            if failure == "writing":
                full()
            if failure == "moving":
                monkeypatch.setattr(Storage, "rename", full_for_the_new)
            if failure == "flushing":
                monkeypatch.setattr("os.fsync", full)

    if failure:
        with pytest.raises(OSError, match="No space left"):
            write()
    else:
        write()
    wanted = ("old" if before != "nothing" else None) if failure else "new"
    assert seen(target) == wanted
    assert [path for path in (tmp_path / "deep").iterdir() if path != target] == []


def test_remove_takes_links_not_what_they_lead_to(tmp_path: Path) -> None:
    make(tmp_path / "folder", "folder", "kept")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    remove(tmp_path / "link")
    assert seen(tmp_path / "folder") == "kept"


def test_folders_of_killed_processes_are_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in (f"ranks-{ended.pid}-x", f"ranks-{os.getppid()}-x", "ranks-abc", "other-1-x"):
        (tmp_path / f"lightwork-{name}/attempt0").mkdir(parents=True)
    with scratch_folder("ranks") as folder:
        assert folder.parent == tmp_path
        left = {path.name for path in tmp_path.iterdir()}
    assert f"lightwork-ranks-{ended.pid}-x" not in left
    assert {
        f"lightwork-ranks-{os.getppid()}-x",
        "lightwork-ranks-abc",
        "lightwork-other-1-x",
    } < left
    assert not folder.exists()
