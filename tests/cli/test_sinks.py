"""A package that is wanted and not there is told before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lightwork.comm.supervisor import Launch


def test_a_missing_package_is_one_line_before_anything_starts(
    folder: Path,
    command: Callable[..., Any],
    launches: list[Launch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "lightwork.telemetry.sinks.find_spec", lambda n: None if n == "mlflow" else find_spec(n)
    )
    ended = command("train", "s.yaml", "telemetry.sinks=[tensorboard,mlflow]", "--run", "mine")
    assert ended.code == 2
    assert ended.err == (
        "error: telemetry.sinks names mlflow, which is not installed: "
        "pip install 'lightwork[mlflow]', or leave it out\n"
    )
    assert launches == []
    assert not (folder / "mine").exists()
    assert "mlflow" not in sys.modules
    assert command("train", "s.yaml", "telemetry.sinks=[]", "--run", "mine").code == 7
    assert len(launches) == 1
