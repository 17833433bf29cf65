"""``lightwork logs``: what all ranks of a run wrote, in the order of time."""

from __future__ import annotations

import typer

from lightwork.cli.arguments import RunFolder
from lightwork.report.logs import read_logs


def logs(run: RunFolder) -> None:
    """Show the logs of all ranks as one; what they all wrote stands there once."""
    entries, ranks = read_logs(run.expanduser())
    for entry in entries:
        typer.echo(entry.text(ranks))
