"""What ranks do in these tests; called by ``tests.ranks.run_as_processes``."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

from lightwork.assembly.training import started
from lightwork.assembly.verifying import verify
from lightwork.settings import load_settings

Rows = list[Any]
"""``[row, passed, found]`` of every row."""


def verdicts(settings: str, folder: str, *overrides: str) -> Rows:
    """Those of this rank."""
    with started(load_settings(Path(settings), list(overrides)), Path(folder)) as start:
        return [list(astuple(verdict)) for verdict in verify(start)]
