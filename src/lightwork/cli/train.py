"""``lightwork train``: as a rank, train; otherwise check everything and start the ranks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.arguments import Devices, Overrides, Ranks, SettingsFile
from lightwork.cli.failures import INTERRUPTED, failures_named
from lightwork.cli.launching import (
    LOGS,
    is_rank,
    opens_run,
    ranks_here,
    refuse_ranks,
    start_ranks,
    with_devices,
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


DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Try one step, one evaluation batch and one checkpoint; keep nothing.",
    ),
]
DRY = ".dry-run"
"""What is added to the name of a run's folder for the one that a dry run uses and removes."""


def train(
    settings_file: SettingsFile,
    overrides: Overrides = None,
    ranks: Ranks = None,
    run: RunOption = None,
    dry_run: DryRun = False,
    devices: Devices = None,
) -> None:
    """Train a model, or continue where the same run stopped."""
    file, found = locate(settings_file)
    settings = load_settings(file, overrides or [])
    check_paths(settings)
    environ = with_devices(devices, os.environ)
    if is_rank(environ):
        refuse_ranks(ranks, environ)
        _train_as_rank(settings, _folder(settings, file.stem, run or found, dry_run), dry_run)
        return
    count = ranks_here(ranks, settings.launch.device, environ)
    folder = _folder(settings, file.stem, run or found, dry_run)
    if dry_run and locate(folder)[1] is not None:
        shutil.rmtree(folder)  # left by one that was killed
    is_new = not folder.exists()
    record = open_run(folder, settings)
    # Ranks read what was just stored: all see the same settings, whatever becomes of the file.
    arguments = ["train", str(folder.absolute()), *(["--dry-run"] if dry_run else [])]
    with failures_named(folder / LOGS):
        code = start_ranks(
            arguments, count, folder, record.run_id, settings.launch.grace_s, environ
        )
    _tidy(folder, code, is_new, dry_run)
    raise typer.Exit(code)


def _folder(settings: Settings, name: str, given: Path | None, dry_run: bool) -> Path:
    """The folder of the run; a dry run has one of its own beside it."""
    folder = run_folder(settings, name, given)
    return folder if not dry_run or folder.name.endswith(DRY) else Path(f"{folder}{DRY}")


def _tidy(folder: Path, code: int, is_new: bool, dry_run: bool) -> None:
    """Leave nothing behind that nobody can use."""
    mistake = code == LightworkError.exit_code and is_new and not (folder / "checkpoints").exists()
    if folder.exists() and (
        mistake or (dry_run and code in (LightworkError.exit_code, INTERRUPTED))
    ):
        shutil.rmtree(folder)  # a mistake in the data or the model: there is no run to go on with
    elif dry_run and folder.exists():
        typer.echo(f"the logs of the dry run are in {folder / LOGS}", err=True)
    elif code == INTERRUPTED:
        saved = sorted(path.parent.name for path in folder.glob("checkpoints/*/manifest.json"))
        where = f"goes on from {saved[-1]} in {folder}" if saved else "begins again"
        typer.echo(f"interrupted; the same command {where}", err=True)


def _train_as_rank(settings: Settings, folder: Path, dry_run: bool) -> None:
    if opens_run(os.environ):
        open_run(folder, settings)
    with failures_named(folder / LOGS):
        from lightwork.assembly import run_dry, run_train

        (run_dry if dry_run else run_train)(settings, folder)
