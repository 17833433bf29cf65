"""Ranks in a folder for the moment: of commands that check or measure and keep nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import typer

from lightwork.cli.failures import INTERRUPTED, failures_named
from lightwork.cli.launching import LOGS, launch_of, start_ranks
from lightwork.errors import LightworkError
from lightwork.settings import Settings, open_run

TERMINATED = 143
FORESEEN = (0, LightworkError.exit_code, INTERRUPTED, TERMINATED)
"""Endings after which nobody wants to read logs. Verify's rows that failed end with 1, without a
folder."""


def prefix(command: str) -> str:
    """How the name of its folder begins, among the temporary ones of the system."""
    return f"lightwork-{command}-"


def start_for_the_moment(
    command: str,
    words: Callable[[Path], list[str]],
    settings: Settings,
    count: int,
    environ: Mapping[str, str],
) -> int:
    """Start ``count`` ranks with the arguments ``words(folder)`` and wait; returns the exit code.

    The folder holds ``settings`` and the logs; rank 0 removes it when all is done.
    """
    folder, code = Path(tempfile.mkdtemp(prefix=prefix(command))), 0
    try:
        # Ranks read what is stored here: all see the same settings, whatever becomes of the file.
        run_id, grace_s = open_run(folder, settings).run_id, settings.launch.grace_s
        code = start_ranks(launch_of(words(folder), count, folder, run_id, grace_s, environ))
    finally:
        _tidy(folder, code)
    return code


def _tidy(folder: Path, code: int) -> None:
    """Rank 0 has removed the folder, unless something stopped it."""
    if code == INTERRUPTED:
        typer.echo("interrupted; nothing of it is kept", err=True)
    if code in FORESEEN:
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.exists():
        typer.echo(f"the logs are in {folder / LOGS}", err=True)


def as_rank(command: str, found: Path | None, do: Callable[[Path], None]) -> None:
    """``do`` in the folder ``found`` of :func:`start_for_the_moment`, or in one of its own."""
    if found is not None and "LIGHTWORK_RUN_ID" in os.environ:
        with failures_named(found / LOGS):
            do(found)
    else:  # another launcher started the ranks, perhaps on several machines
        with tempfile.TemporaryDirectory(prefix=prefix(command)) as folder:
            do(Path(folder))
