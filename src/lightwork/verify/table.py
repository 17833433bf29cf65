"""The verdicts as a person reads them: a table on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightwork.verify.verdict import Verdict

MARKS = {True: "pass", False: "FAIL", None: "-"}
STYLES = {True: "green", False: "bold red", None: "dim"}


def show(console: Console, title: str, verdicts: Sequence[Verdict]) -> None:
    """Print the table below its title, and what it comes to."""
    _print(console, title)
    if console.is_terminal:
        console.print(_table(verdicts))
    else:
        width = max(len(verdict.row) for verdict in verdicts)
        for verdict in verdicts:
            _print(console, f"{MARKS[verdict.passed]:4}  {verdict.row:{width}}  {verdict.found}")
    _print(console, outcome(verdicts))


def outcome(verdicts: Sequence[Verdict]) -> str:
    """How many rows passed, failed and were not checked."""
    passed, failed, unchecked = (
        sum(verdict.passed is value for verdict in verdicts) for value in (True, False, None)
    )
    parts = [f"{passed} passed", f"{failed} failed", f"{unchecked} not checked"]
    return ", ".join(part for part in parts if not part.startswith("0 "))


def _table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("")
    table.add_column("what", no_wrap=True)
    table.add_column("found")
    for verdict in verdicts:
        mark = Text(MARKS[verdict.passed], STYLES[verdict.passed])
        table.add_row(mark, Text(verdict.row), Text(verdict.found))
    return table


def _print(console: Console, line: str) -> None:
    console.print(Text(line), soft_wrap=True)
