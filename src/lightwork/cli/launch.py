"""``lightwork launch``: start a person's own script once per card, as ranks that can connect."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.arguments import Devices, Ranks
from lightwork.cli.launching import is_rank, visible_gpus, with_devices
from lightwork.comm.supervisor import Launch, supervise
from lightwork.errors import LaunchError

GRACE_S = 5.0
Script = Annotated[
    Path,
    typer.Argument(metavar="SCRIPT.py", help="A script that calls lightwork.connect()."),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="What follows the script belongs to it, options too."),
]
Logs = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="What ranks other than 0 print goes to rank<N>.log here; otherwise to a temporary "
        "folder that is kept only after a failure.",
    ),
]


def launch(
    script: Script,
    arguments: Arguments = None,
    ranks: Ranks = None,
    devices: Devices = None,
    logs: Logs = None,
) -> None:
    """Start your own script on several GPUs; options of this command stand before the script."""
    if is_rank(os.environ):
        raise LaunchError(
            "lightwork launch was started as a rank of another launcher, such as torchrun; leave "
            "out one of the two: torchrun starts the script itself"
        )
    _check_script(script)
    environ = with_devices(devices, os.environ)
    count = _ranks(ranks, visible_gpus(environ))
    if count > 1:
        _warn_if_not_connected(script)
    run_id = secrets.token_hex(8)
    folder = logs or Path(tempfile.gettempdir()) / f"lightwork-logs-{run_id}"
    arguments = arguments or []
    code = supervise(
        Launch(
            command=(sys.executable, str(script), *arguments),
            ranks=count,
            run_id=run_id,
            log_dir=folder,
            environment=environ,
            grace_s=GRACE_S,
        )
    )
    if code:
        _hint(arguments)
    elif logs is None:
        shutil.rmtree(folder, ignore_errors=True)  # a single rank leaves none
    raise typer.Exit(code)


def _check_script(script: Path) -> None:
    if not script.is_file():
        what = "is a folder" if script.is_dir() else "does not exist"
        raise LaunchError(
            f"the script {script} (looked at {script.absolute()}) {what}; give a Python file, as "
            "in: lightwork launch --ranks 2 train.py --epochs 3"
        )


def _ranks(asked: int | None, gpus: int) -> int:
    if asked is not None and 0 < gpus < asked:
        raise LaunchError(
            f"--ranks {asked} was given, but only {gpus} GPU{'s are' if gpus > 1 else ' is'} "
            f"visible and each rank needs its own; give at most {gpus}, or set "
            "CUDA_VISIBLE_DEVICES= (to nothing) to run on the CPU"
        )
    return asked or gpus or 1


def _warn_if_not_connected(script: Path) -> None:
    """A script that does not connect would be run several times, all of it, side by side."""
    if b"lightwork" not in script.read_bytes():
        typer.echo(
            f"warning: {script} does not mention lightwork. Without run = lightwork.connect() the "
            "ranks know nothing of each other and each does the whole work.",
            err=True,
        )


def _hint(arguments: list[str]) -> None:
    own = [word for word in arguments if word.partition("=")[0] in ("--ranks", "--devices")]
    if own:
        typer.echo(
            f"{own[0]} stood behind the script, so the script got it; options of lightwork launch "
            "come before the script",
            err=True,
        )
