"""``lightwork explain``: where the time of a run goes, and what to do."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from lightwork.cli.arguments import AsJson, RunFolder


def explain(run: RunFolder, as_json: AsJson = False) -> None:
    """Say what holds a run up, on which rank, and what could be done about it."""
    from lightwork.report import explaining
    from lightwork.settings import read_run

    folder = run.expanduser()
    read_run(folder)
    steps, found = explaining.explained(folder)
    if any(finding.at_steps for finding in found):
        from lightwork.assembly.suspects import named  # imports torch, for which few runs wait

        found = named(found, folder, steps.ranks)
    if as_json:
        typer.echo(json.dumps(explaining.as_json(steps, found), indent=2))
    else:
        explaining.show(Console(), steps, found)
