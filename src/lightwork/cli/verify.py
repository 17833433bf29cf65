"""``lightwork verify``: as a rank, check; otherwise start the ranks in a folder for the moment."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from lightwork.cli.arguments import Devices, Overrides, Ranks, SettingsFile
from lightwork.cli.launching import is_rank, ranks_here, refuse_ranks, with_devices
from lightwork.cli.momentary import as_rank, start_for_the_moment
from lightwork.settings import check_paths, load_settings, locate


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

    def do(folder: Path) -> None:
        from lightwork.assembly import run_verify

        run_verify(settings, folder)

    if is_rank(environ):
        refuse_ranks(ranks, environ)
        as_rank("verify", found, do)
        return
    count = ranks_here(ranks, settings.launch.device, environ)

    def words(folder: Path) -> list[str]:
        return ["verify", str(folder)]

    raise typer.Exit(start_for_the_moment("verify", words, settings, count, environ))
