"""``lightwork logs``: what all ranks of a run wrote, in the order of time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lightwork.report.logs import read_logs

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def logs(run: RunArgument) -> None:
    """Show the logs of all ranks as one; what they all wrote stands there once."""
    entries, ranks = read_logs(run.expanduser())
    for entry in entries:
        typer.echo(entry.text(ranks))
