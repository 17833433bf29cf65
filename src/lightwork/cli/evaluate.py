"""``lightwork evaluate``: score what a run has learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.arguments import Devices, Overrides, Ranks
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
from lightwork.errors import CheckpointError, RunError, SettingsError
from lightwork.settings import (
    Settings,
    check_files,
    folder_reason,
    load_settings,
    locate,
    named,
    numbered,
    read_run,
)

OVERRIDABLE = ("evaluate", "launch")

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Data = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Questions to score, may be repeated; otherwise data.dev."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where to write; otherwise RUN/evaluation/<names of FILEs>."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Write to a folder that holds files already.")
]


def evaluate(  # noqa: PLR0913 - options of a command
    run: RunArgument,
    overrides: Overrides = None,
    *,
    data: Data = None,
    out: Out = None,
    ranks: Ranks = None,
    overwrite: Overwrite = False,
    devices: Devices = None,
) -> None:
    """Answer and score questions with the best model of a run."""
    _refuse_others(overrides or [])
    run = run.expanduser()
    record = read_run(run)
    settings = numbered(load_settings(locate(run)[0], overrides or []), record.identity)
    files = _data_files(settings, data)
    own = run / "evaluation" / "+".join(file.stem for file in files)
    target = (own if out is None else out.expanduser()).absolute()
    as_rank = is_rank(os.environ)
    environ = with_devices(devices, os.environ)
    if as_rank:
        refuse_ranks(ranks, os.environ)
    if opens_run(os.environ):
        check_checkpoints(run)
        _check_out(target, overwrite or out is None)  # its own place may be written again
    with failures_named(run / LOGS):
        if as_rank:
            from lightwork.assembly import run_evaluate

            run_evaluate(run, files, target, settings)
            return
        arguments = _arguments(run, files, target, overrides or [])
        count = ranks_here(ranks, settings.launch.device, environ)
        grace_s = settings.launch.grace_s
        code = start_ranks(launch_of(arguments, count, run, record.run_id, grace_s, environ))
    raise typer.Exit(code)


def _refuse_others(overrides: Sequence[str]) -> None:
    """What a run has learned does not change by other settings."""
    for text in overrides:
        name = text.partition("=")[0].strip()
        if name.partition(".")[0] not in OVERRIDABLE:
            raise SettingsError(
                f"{name} cannot be changed for an evaluation; only settings of "
                f"{' and '.join(OVERRIDABLE)} can, the others are those of the run"
            )


def _data_files(settings: Settings, data: Sequence[str] | None) -> list[Path]:
    if data:
        return check_files("--data", data)
    if not settings.data.dev:
        raise SettingsError("the run has no data.dev to evaluate on; name a file with --data FILE")
    return check_files("data.dev", list(map(str, settings.data.dev)))


def check_checkpoints(run: Path) -> None:
    """Without torch, so only that there are some; loading one verifies it."""
    if not any((run / "checkpoints").glob("step-*")):
        raise CheckpointError(
            f"the run folder {named(str(run), run.absolute())} has no checkpoint inside yet; "
            f"train first: lightwork train {run}"
        )


def _check_out(out: Path, overwrite: bool) -> None:
    reason = folder_reason(out)
    if reason:
        raise RunError(f"--out: {out} {reason}")
    if not overwrite and any(out.iterdir()):
        raise RunError(f"--out: {out} holds files already; add --overwrite to replace them")


def _arguments(run: Path, files: list[Path], out: Path, overrides: Sequence[str]) -> list[str]:
    """The same evaluation for a rank, with everything that was found out."""
    arguments = ["evaluate", str(run.absolute()), "--out", str(out)]
    for path in files:
        arguments += ["--data", str(path)]
    return [*arguments, *overrides]
