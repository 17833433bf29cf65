"""``lightwork train``: as a rank, train; otherwise check everything and start the ranks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.arguments import Overrides, Ranks, SettingsFile
from lightwork.cli.failures import INTERRUPTED, failures_named
from lightwork.cli.launching import (
    LOGS,
    is_rank,
    opens_run,
    ranks_here,
    refuse_ranks,
    start_ranks,
)
from lightwork.errors import LightworkError
from lightwork.settings import Settings, check_paths, load_settings, locate, open_run, run_folder

RunOption = Annotated[
    Path | None,
    typer.Option(
        "--run",
        "--run-folder",  # torchrun takes --run for an abbreviation of its own --run-path
        metavar="DIR",
        help="The folder of the run; otherwise runs/<settings>-<hash>. After torchrun: "
        "--run-folder.",
    ),
]


def train(
    settings_file: SettingsFile,
    overrides: Overrides = None,
    ranks: Ranks = None,
    run: RunOption = None,
) -> None:
    """Train a model, or continue where the same run stopped."""
    file, found = locate(settings_file)
    settings = load_settings(file, overrides or [])
    check_paths(settings)
    if is_rank(os.environ):
        refuse_ranks(ranks, os.environ)
        _train_as_rank(settings, file.stem, run or found)
        return
    count = ranks_here(ranks, settings.launch.device, os.environ)
    folder = run_folder(settings, file.stem, run or found)
    is_new = not folder.exists()
    record = open_run(folder, settings)
    # Ranks read what was just stored: all see the same settings, whatever becomes of the file.
    with failures_named(folder / LOGS):
        arguments = ["train", str(folder.absolute())]
        code = start_ranks(arguments, count, folder, record.run_id, settings.launch.grace_s)
    if code == LightworkError.exit_code and is_new and not (folder / "checkpoints").exists():
        shutil.rmtree(folder)  # a mistake in the data or the model: there is no run to go on with
    if code == INTERRUPTED:
        typer.echo(
            f"interrupted; the same command goes on from the newest checkpoint in {folder}",
            err=True,
        )
    raise typer.Exit(code)


def _train_as_rank(settings: Settings, name: str, given: Path | None) -> None:
    folder = run_folder(settings, name, given)
    if opens_run(os.environ):
        open_run(folder, settings)
    with failures_named(folder / LOGS):
        from lightwork.assembly import run_train

        run_train(settings, folder)
