"""The command line inside this process, and stand-ins for what it calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lightwork.cli.main import run
from lightwork.comm.supervisor import Launch


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with data and settings, and no launcher in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LIGHTWORK_RUN_ID", "LIGHTWORK_TOLD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "train.json").write_text('{"data": []}')
    (tmp_path / "s.yaml").write_text(
        "data:\n  train: train.json\n  cache: cache\nmodel:\n  source: scratch\n"
    )
    return tmp_path


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``command("train", "s.yaml")`` runs it here."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["lightwork", *arguments])
        with pytest.raises(SystemExit) as caught:
            run()
        captured = capsys.readouterr()
        return Ended(int(caught.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """What the supervisor was asked to start; it starts nothing and answers 7."""
    asked: list[Launch] = []

    def note(launch: Launch) -> int:
        asked.append(launch)
        return 7

    monkeypatch.setattr("lightwork.cli.launching.supervise", note)
    return asked


@dataclass
class Assembly:
    """Stands for lightwork.assembly; ``error`` is raised by every call."""

    calls: list[tuple[str, tuple[Any, ...]]]
    error: BaseException | None = None


@pytest.fixture
def assembly(monkeypatch: pytest.MonkeyPatch) -> Assembly:
    """What a rank was told to do."""
    stand_in = Assembly([])
    module = ModuleType("lightwork.assembly")

    def recorder(name: str) -> Callable[..., None]:
        def record(*arguments: Any) -> None:
            stand_in.calls.append((name, arguments))
            if stand_in.error is not None:
                raise stand_in.error

        return record

    names = ("run_prepare", "run_train", "run_dry", "run_evaluate", "run_verify", "run_bench_sync")
    for name in names:
        setattr(module, name, recorder(name))
    monkeypatch.setitem(sys.modules, "lightwork.assembly", module)
    return stand_in


WHO = "Who is it ?"
_WORDS = [f"w{number}" for number in range(120)]
AMBER_TEXT = (
    f"{' '.join(_WORDS[:30])}\n{' '.join(_WORDS[30:60])}\n amber  {' '.join(_WORDS[60:])}\n"
)
AMBER_START = AMBER_TEXT.index("amber")


@pytest.fixture(scope="session")
def amber(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that finds the word amber in any text."""
    from tests.assembly.made import pointing_model

    return pointing_model(tmp_path_factory.mktemp("amber"), {"amber": (9, 9)})


@pytest.fixture
def notes(folder: Path) -> Path:
    """A long text with amber in its third line, in the current folder."""
    path = folder / "notes.txt"
    path.write_text(AMBER_TEXT)
    return path
