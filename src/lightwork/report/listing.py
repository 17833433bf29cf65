"""Runs side by side: one row a run, with the settings in which they differ."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightwork.report.runs import Problem, RunFacts, train_files
from lightwork.settings import Settings, default_of
from lightwork.settings.describe import fields

GAP = "  "
TABLE_GAP = "   "
"""Between two columns of rich's table: padding, border, padding."""

PLAIN_WIDTH = 160
"""Characters of the widest table that goes to a file or another program."""


@dataclass(frozen=True)
class Column:
    """A title and a cell for every run; numbers stand to the right."""

    title: str
    cells: list[str]
    number: bool = False

    @property
    def width(self) -> int:
        """Places on a terminal."""
        return max(cell_len(text) for text in (self.title, *self.cells))


def show(console: Console, runs: Sequence[RunFacts], problems: Sequence[Problem]) -> None:
    """Print a table of ``runs``, or a block for each where it would be too wide, and what is wrong
    with the others."""
    if runs:
        show_columns(console, columns_of(runs))
    else:
        _print(console, ["no run here can be read"])
    for problem in problems:
        _print(console, [f"not listed: {printable(problem.name)}: {printable(problem.reason)}"])


def show_columns(console: Console, columns: Sequence[Column]) -> None:
    """Print them as a table, or row by row as blocks where that would be too wide."""
    room = console.width if console.is_terminal else PLAIN_WIDTH
    gap = len(TABLE_GAP if console.is_terminal else GAP)
    if sum(column.width for column in columns) + gap * (len(columns) - 1) > room:
        _print(console, blocks(columns))
    elif console.is_terminal:
        console.print(_table(columns))
    else:
        _print(console, aligned(columns))


def columns_of(runs: Sequence[RunFacts]) -> list[Column]:
    """What is shown of ``runs``; settings that are the same in all of them are not."""
    names = dict.fromkeys(
        name
        for run in runs
        if run.best
        for name in (run.best.metric, *run.best.scores)
        if name in (run.best.metric, "exact_match", "f1")
    )
    return [
        Column("run", [printable(run.name) for run in runs]),
        Column("state", [run.state for run in runs]),
        _numbers("steps", runs, lambda run: f"{run.step}/{run.planned_steps or '?'}"),
        *(Column(name, [_score(run, name) for run in runs], number=True) for name in names),
        _numbers("at step", runs, lambda run: str(run.best.step) if run.best else "-"),
        *(Column(name, _shown(name, runs)) for name in differing(runs)),
        _numbers("windows/s", runs, _speed),
        _numbers("ranks", runs, lambda run: str(run.ranks or "-")),
        Column("last written", [minute(run.written_unix_s) for run in runs]),
    ]


def differing(runs: Sequence[RunFacts]) -> list[str]:
    """The identity settings that are not the same in all ``runs``, in the order of the schema.

    A setting that a run does not know, since an older version wrote it, has its default there.
    """
    known = [name for name in fields(Settings) if any(name in run.identity for run in runs)]
    names = dict.fromkeys([*known, *(name for run in runs for name in run.identity)])
    return [name for name in names if len({json.dumps(_value(run, name)) for run in runs}) > 1]


def aligned(columns: Sequence[Column]) -> list[str]:
    """Lines of plain text, the first with the titles."""
    lines = []
    for cells in zip(*((column.title, *column.cells) for column in columns), strict=True):
        placed = [_filled(text, column) for text, column in zip(cells, columns, strict=True)]
        lines.append(GAP.join(placed).rstrip())
    return lines


def blocks(columns: Sequence[Column]) -> list[str]:
    """A block of lines for every run, for more columns than fit side by side."""
    first, *others = columns
    titles = max(cell_len(column.title) for column in others)
    lines: list[str] = []
    for number, name in enumerate(first.cells):
        lines += ["", name] if number else [name]
        for column in others:
            blanks = " " * (titles - cell_len(column.title))
            lines.append(f"{GAP}{column.title}{blanks}{GAP}{column.cells[number]}")
    return lines


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for column in columns:
        justify: Any = "right" if column.number else "left"
        table.add_column(Text(column.title), justify=justify, no_wrap=True)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _print(console: Console, lines: Sequence[str]) -> None:
    """As they are: nothing in a name is markup, and no line is wrapped."""
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _numbers(title: str, runs: Sequence[RunFacts], cell: Callable[[RunFacts], str]) -> Column:
    return Column(title, [cell(run) for run in runs], number=True)


def _filled(text: str, column: Column) -> str:
    blanks = " " * (column.width - cell_len(text))
    return blanks + text if column.number else text + blanks


def _score(run: RunFacts, name: str) -> str:
    value = run.best.scores.get(name) if run.best else None
    return "-" if value is None else f"{value:.2f}"


def _speed(run: RunFacts) -> str:
    return "-" if run.batch_windows_per_s is None else f"{run.batch_windows_per_s:.0f}"


def minute(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_s))


def _value(run: RunFacts, name: str) -> Any:
    return run.identity.get(name, default_of(name))


def _shown(name: str, runs: Sequence[RunFacts]) -> list[str]:
    """The values of one setting, no longer than it takes to tell them apart."""
    values = [_value(run, name) for run in runs]
    if name == "data.train":
        digests = ["+".join(str(digest)[:8] for digest in _listed(value)) for value in values]
        files = ["+".join(train_files(run.folder)) for run in runs]
        both = [" ".join(filter(None, pair)) for pair in zip(files, digests, strict=True)]
        return _shortest(values, files, both)
    texts = ["null" if value is None else printable(str(value)) for value in values]
    if name == "model.source":
        names = [Path(text).name if Path(text).is_absolute() else text for text in texts]
        return _shortest(values, names, texts)
    return texts


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _shortest(values: Sequence[Any], short: list[str], long: list[str]) -> list[str]:
    """``short`` where every one is there and different values have different ones."""
    distinct = {json.dumps(value) for value in values}
    enough = all(short) and len(set(short)) == len(distinct)
    return [printable(text) for text in (short if enough else long)]


def printable(text: str) -> str:
    """Names of files can hold anything, even what moves a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
