"""What ranks do in the tests of whole runs; called by ``tests.ranks.run_as_processes``."""

from __future__ import annotations

from pathlib import Path

from lightwork.assembly import run_dry, run_evaluate, run_train
from lightwork.settings import load_settings


def train(settings: str, run: str, *overrides: str) -> None:
    """Train as this rank."""
    run_train(load_settings(Path(settings), list(overrides)), Path(run))


def dry_run(settings: str, run: str, *overrides: str) -> None:
    """Try everything once as this rank."""
    run_dry(load_settings(Path(settings), list(overrides)), Path(run))


def evaluate(settings: str, run: str, data: str, out: str, *overrides: str) -> None:
    """Evaluate as this rank."""
    values = load_settings(Path(settings), list(overrides))
    run_evaluate(Path(run), [Path(data)], Path(out), values)
