"""What is written beside its place takes it whole, or what was there stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.disk import Storage, remove, replacing


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
