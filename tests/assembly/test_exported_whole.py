"""An exported folder appears whole or not at all, and an earlier one is never lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import RunError
from tests.assembly.exported import export, files, made_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_run(tmp_path)


@pytest.mark.parametrize("call", ["shutil.copyfile", "os.fsync", "pathlib.Path.write_bytes"])
@pytest.mark.parametrize("before", [False, True])
def test_a_full_disk_leaves_what_was_there(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, before: bool
) -> None:
    out = tmp_path / "a" / "out"
    if before:
        out.mkdir(parents=True)
        (out / "lightwork.json").write_text("earlier")

    def fail(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(call, fail)
    with pytest.raises(RunError, match="No space left on device"):
        export(run, out)
    monkeypatch.undo()
    if before:
        assert files(out) == {"lightwork.json": b"earlier"}
    assert [path for path in (tmp_path / "a").iterdir() if path != out] == []
    assert out.exists() == before


def test_a_failed_rename_puts_the_earlier_export_back(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export(run, tmp_path / "out")
    before = files(out)
    replace = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if path.name == ".out.part":
            raise OSError(5, "Input/output error")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(RunError, match="Input/output error"):
        export(run, out)
    assert files(out) == before
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_an_earlier_export_is_replaced_whole(run: Path, tmp_path: Path) -> None:
    out = export(run, tmp_path / "out")
    (out / "model-00001-of-00002.safetensors").touch()
    for left in (".out.part", ".out.old"):  # by exports that were killed
        shutil.copytree(out, tmp_path / left)
    assert "model-00001-of-00002.safetensors" not in files(export(run, out))
    assert sorted(path.name for path in tmp_path.glob(".*")) == []
