"""``lightwork checkpoints``: what a run can go on from, and whether it is whole."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from lightwork.cli.arguments import AsJson, RunFolder
from lightwork.report.checkpoints import goes_on, read_checkpoints, show

DAMAGED = 1
"""The exit code where the newest checkpoint does not verify."""


def checkpoints(run: RunFolder, as_json: AsJson = False) -> None:
    """Read every checkpoint of a run and say which verify; 1 if the newest does not."""
    found = read_checkpoints(run.expanduser())
    if as_json:
        typer.echo(json.dumps([facts.as_json() for facts in found], indent=2))
    else:
        show(Console(), found)
    if not goes_on(found):
        raise typer.Exit(DAMAGED)
