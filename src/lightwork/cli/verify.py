"""``lightwork verify``: as a rank, check; otherwise start the ranks in a folder for the moment."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import typer

from lightwork.cli.arguments import Devices, Overrides, Ranks, SettingsFile
from lightwork.cli.failures import INTERRUPTED, failures_named
from lightwork.cli.launching import (
    LOGS,
    is_rank,
    launch_of,
    ranks_here,
    refuse_ranks,
    start_ranks,
    with_devices,
)
from lightwork.errors import LightworkError
from lightwork.settings import Settings, check_paths, load_settings, locate, open_run

PREFIX = "lightwork-verify-"
"""How the name of the folder begins, among the temporary ones of the system."""
TERMINATED = 143
FORESEEN = (0, LightworkError.exit_code, INTERRUPTED, TERMINATED)
"""Endings after which nobody wants to read logs; rows that failed end with 1, without a folder."""


def verify(
    settings_file: SettingsFile,
    overrides: Overrides = None,
    ranks: Ranks = None,
    devices: Devices = None,
) -> None:
    """Check in a minute that training on several ranks is training on one; keep nothing."""
    file, found = locate(settings_file)
    settings = load_settings(file, overrides or [])
    check_paths(settings)
    environ = with_devices(devices, os.environ)
    if is_rank(environ):
        refuse_ranks(ranks, environ)
        _verify_as_rank(settings, found)
        return
    count = ranks_here(ranks, settings.launch.device, environ)
    folder, code = Path(tempfile.mkdtemp(prefix=PREFIX)), 0
    try:
        # Ranks read what is stored here: all see the same settings, whatever becomes of the file.
        run_id, grace_s = open_run(folder, settings).run_id, settings.launch.grace_s
        code = start_ranks(
            launch_of(["verify", str(folder)], count, folder, run_id, grace_s, environ)
        )
    finally:
        _tidy(folder, code)
    raise typer.Exit(code)


def _tidy(folder: Path, code: int) -> None:
    """Rank 0 has removed the folder, unless something stopped it."""
    if code == INTERRUPTED:
        typer.echo("interrupted; nothing of it is kept", err=True)
    if code in FORESEEN:
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.exists():
        typer.echo(f"the logs are in {folder / LOGS}", err=True)


def _verify_as_rank(settings: Settings, found: Path | None) -> None:
    if found is not None and "LIGHTWORK_RUN_ID" in os.environ:
        with failures_named(found / LOGS):
            _verify_in(found, settings)
    else:  # another launcher started the ranks, perhaps on several machines
        with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
            _verify_in(Path(folder), settings)


def _verify_in(folder: Path, settings: Settings) -> None:
    from lightwork.assembly import run_verify

    run_verify(settings, folder)
