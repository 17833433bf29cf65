"""``lightwork list``: what runs have done, side by side."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lightwork.report.listing import show
from lightwork.report.runs import in_order, read_runs
from lightwork.settings.run_folder import RUNS


class Order(str, Enum):
    """What the rows are sorted by."""

    score = "score"
    name = "name"
    time = "time"


Runs = Annotated[
    Path, typer.Argument(metavar="RUNS", help="A folder of runs, or the folder of one.")
]
Sort = Annotated[
    Order, typer.Option("--sort", help="Best score first, by name, or last written first.")
]
Json = Annotated[bool, typer.Option("--json", help="A JSON list, with everything that is known.")]


def list_runs(runs: Runs = RUNS, sort: Sort = Order.score, as_json: Json = False) -> None:
    """Compare runs: scores, steps, speed, and the settings in which they differ."""
    found, problems = read_runs(runs.expanduser())
    found = in_order(found, sort.value)
    if as_json:
        entries = [{**run.as_json(), "problem": None} for run in found]
        damaged = [
            {"name": problem.name, "folder": str(problem.folder), "problem": problem.reason}
            for problem in problems
        ]
        typer.echo(json.dumps([*entries, *damaged], indent=2))
        return
    show(Console(), found, problems)
