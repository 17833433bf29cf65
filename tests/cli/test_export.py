"""``lightwork export``: where it may write, before anything heavy is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.report.made import finished_run

Command = Callable[..., Any]


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the assembly was asked to export."""
    asked: list[tuple[Any, ...]] = []
    module = ModuleType("lightwork.assembly.exporting")

    def run_export(*arguments: Any) -> Any:
        asked.append(arguments)
        return SimpleNamespace(folder=arguments[1], step=80)

    module.run_export = run_export  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightwork.assembly", ModuleType("lightwork.assembly"))
    monkeypatch.setitem(sys.modules, "lightwork.assembly.exporting", module)
    return asked


@pytest.fixture
def run(folder: Path) -> Path:
    return finished_run(folder / "runs" / "a", 80.0)


def test_it_says_where_and_what_next(
    run: Path, folder: Path, command: Command, exports: list[Any]
) -> None:
    ended = command("export", "runs/a", "my model")
    assert (ended.code, ended.err) == (0, "")
    assert "step 80 of runs/a is in my model" in ended.out
    assert "lightwork answer 'my model' --context notes.txt" in ended.out
    ((asked_run, target, settings),) = exports
    assert (asked_run, target) == (Path("runs/a"), folder / "my model")
    assert settings.train.epochs == 3


def test_files_are_only_replaced_when_asked(
    run: Path, folder: Path, command: Command, exports: list[Any]
) -> None:
    (folder / "out").mkdir()
    assert command("export", "runs/a", "out").code == 0  # empty
    for name in ("lightwork.json", "config.json", "model-00001-of-00002.safetensors"):
        (folder / "out" / name).touch()
    ended = command("export", "runs/a", "out")
    assert ended.code == 2
    assert "--overwrite" in ended.err
    assert len(exports) == 1
    assert command("export", "runs/a", "out", "--overwrite").code == 0
    assert len(exports) == 2


@pytest.mark.parametrize("other", ["notes.txt", ".git/", "vocab.old/", "data.json"])
def test_overwriting_never_takes_what_no_export_wrote(
    run: Path, folder: Path, command: Command, exports: list[Any], other: str
) -> None:
    (folder / "out").mkdir()
    (folder / "out/lightwork.json").touch()
    path = folder / "out" / other
    path.mkdir() if other.endswith("/") else path.touch()
    ended = command("export", "runs/a", "out", "--overwrite")
    assert ended.code == 2
    assert other.rstrip("/") in ended.err
    assert exports == []


def test_a_model_that_is_no_export_is_left_alone(
    run: Path, folder: Path, command: Command, exports: list[Any]
) -> None:
    (folder / "out").mkdir()
    (folder / "out/config.json").touch()
    ended = command("export", "runs/a", "out", "--overwrite")
    assert ended.code == 2
    assert "no lightwork.json" in ended.err
    assert exports == []


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("runs/a/checkpoints", "checkpoints of the run"),
        ("runs/a/checkpoints/new", "checkpoints of the run"),
        ("runs/a/best", "checkpoints of the run"),
        ("runs/a/best/model", "checkpoints of the run"),
        ("link/new", "checkpoints of the run"),
        ("runs", "holds files already"),
        (".", "where you are"),
        ("s.yaml", "is a file"),
        ("s.yaml/out", "which is a file"),
        ("x" * 300, "too long"),
    ],
)
def test_folders_that_cannot_be(
    run: Path, folder: Path, command: Command, exports: list[Any], out: str, says: str
) -> None:
    (folder / "link").symlink_to("runs/a/checkpoints")
    ended = command("export", "runs/a", out)
    assert ended.code == 2, ended.out
    assert says in ended.err
    assert "Traceback" not in ended.err
    assert exports == []


def test_inside_the_run_but_not_its_checkpoints_is_fine(
    run: Path, folder: Path, command: Command, exports: list[Any]
) -> None:
    assert command("export", "runs/a", "runs/a/exported/best").code == 0
    assert exports[0][1] == run / "exported/best"


def test_what_is_no_run_or_has_no_checkpoint(
    run: Path, folder: Path, command: Command, exports: list[Any]
) -> None:
    assert "does not exist" in command("export", "nope", "out").err
    for path in (run / "checkpoints").rglob("*.json"):
        path.unlink()
    for path in (run / "checkpoints").iterdir():
        path.rmdir()
    ended = command("export", "runs/a", "out")
    assert ended.code == 2
    assert "no checkpoint" in ended.err
    assert not (folder / "out").exists()
    assert exports == []
