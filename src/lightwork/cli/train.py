"""``lightwork train``: as a rank, train; otherwise check everything and start the ranks."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.arguments import Devices, Overrides, Ranks, SettingsFile
from lightwork.cli.failures import failures_named
from lightwork.cli.launching import (
    LOGS,
    is_rank,
    launch_of,
    opens_run,
    ranks_here,
    refuse_ranks,
    start_ranks,
    with_devices,
)
from lightwork.cli.restarting import Restarts, newest_checkpoint
from lightwork.comm.signals import ASKING, name_of
from lightwork.comm.supervisor import Launch
from lightwork.errors import LightworkError, SettingsError
from lightwork.settings import (
    RunRecord,
    Settings,
    check_paths,
    is_random,
    load_settings,
    locate,
    open_run,
    run_folder,
    seeded,
)
from lightwork.telemetry.sinks import check_installed

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
Extend = Annotated[
    bool,
    typer.Option(
        "--extend",
        help="Let a run have a higher train.epochs, train.max_steps or train.patience than it "
        "was started with.",
    ),
]
STOPPED = {128 + number: name_of(number) for number in ASKING}
"""Exit code -> the signal that asked for the end."""
DRY = ".dry-run"
"""What is added to the name of a run's folder for the one that a dry run uses and removes."""


def train(  # noqa: PLR0913, PLR0917 - options of a command
    settings_file: SettingsFile,
    overrides: Overrides = None,
    ranks: Ranks = None,
    run: RunOption = None,
    dry_run: DryRun = False,
    devices: Devices = None,
    extend: Extend = False,
) -> None:
    """Train a model, or continue where the same run stopped."""
    file, found = locate(settings_file)
    given = run or found
    asked = load_settings(file, overrides or [])
    check_paths(asked)
    check_installed(asked.telemetry.sinks)
    environ = with_devices(devices, os.environ)
    if is_rank(environ):
        refuse_ranks(ranks, environ)
        if given is None:
            _refuse_draw(asked)
        _train_as_rank(asked, _folder(asked, file.stem, given, dry_run), dry_run, extend)
        return
    count = ranks_here(ranks, asked.launch.device, environ)
    settings = seeded(asked, given)
    folder = _folder(settings, file.stem, given, dry_run)
    if dry_run and locate(folder)[1] is not None:
        shutil.rmtree(folder)  # left by one that was killed
    is_new = not folder.exists()
    record = open_run(folder, settings, extend and not dry_run)
    if not dry_run:
        _say_seed(asked, record, folder)
    # Ranks read what was just stored: all see the same settings, whatever becomes of the file.
    arguments = ["train", str(folder.absolute()), *(["--dry-run"] if dry_run else [])]
    with failures_named(folder / LOGS):
        grace_s = settings.launch.grace_s
        launch = launch_of(arguments, count, folder, record.run_id, grace_s, environ)
        code = start_ranks(launch) if dry_run else _restarting(launch, folder, settings)
    drawn = given is None and is_random(asked)
    _tidy(folder, code, is_new, dry_run, _again(folder, ranks) if drawn else "the same command")
    raise typer.Exit(code)


def _restarting(launch: Launch, folder: Path, settings: Settings) -> int:
    """Start the ranks, and after a failure that need not repeat itself start them again."""
    restarts = Restarts(folder, settings.launch.restarts)
    timeout_s = settings.launch.hang_timeout_s
    with restarts.counting():
        return start_ranks(replace(launch, again=restarts.again, hang_timeout_s=timeout_s))


def _folder(settings: Settings, name: str, given: Path | None, dry_run: bool) -> Path:
    """The folder of the run; a dry run has one of its own beside it."""
    folder = run_folder(settings, name, given)
    return folder if not dry_run or folder.name.endswith(DRY) else Path(f"{folder}{DRY}")


def _refuse_draw(settings: Settings) -> None:
    """Every rank of another launcher reads the file for itself, and none knows the others yet."""
    if is_random(settings):
        raise SettingsError(
            "train.seed is random, and ranks that another launcher started agree on a number in "
            "the folder of the run: name one with --run-folder DIR, or give a number, as in "
            "train.seed=7"
        )


def _say_seed(settings: Settings, record: RunRecord, folder: Path) -> None:
    """Where ``settings`` do not say which: the number, and how to come back to it."""
    if is_random(settings):
        seed = record.identity["train.seed"]
        text = f"train.seed is random: {seed} in this run; {_going_on(folder)} goes on with it"
        typer.echo(text, err=True)


def _going_on(folder: Path) -> str:
    return f"lightwork train {shlex.quote(str(folder))}"


def _again(folder: Path, ranks: int | None) -> str:
    return _going_on(folder) if ranks is None else f"{_going_on(folder)} --ranks {ranks}"


def _tidy(folder: Path, code: int, is_new: bool, dry_run: bool, again: str) -> None:
    """Leave nothing behind that nobody can use; ``again`` is the command that goes on."""
    mistake = code == LightworkError.exit_code and is_new and not (folder / "checkpoints").exists()
    if folder.exists() and (mistake or (dry_run and code in (LightworkError.exit_code, *STOPPED))):
        shutil.rmtree(folder)  # a mistake in the data or the model: there is no run to go on with
    elif dry_run and folder.exists():
        typer.echo(f"the logs of the dry run are in {folder / LOGS}", err=True)
    elif code in STOPPED:
        saved = newest_checkpoint(folder)
        where = f"goes on from {saved} in {folder}" if saved else "begins again"
        typer.echo(f"stopped by {STOPPED[code]}; {again} {where}", err=True)


def _train_as_rank(settings: Settings, folder: Path, dry_run: bool, extend: bool) -> None:
    if opens_run(os.environ):
        record = open_run(folder, settings, extend and not dry_run)
        if not dry_run:
            _say_seed(settings, record, folder)
    with failures_named(folder / LOGS):
        from lightwork.assembly import run_dry, run_train

        (run_dry if dry_run else run_train)(settings, folder)
