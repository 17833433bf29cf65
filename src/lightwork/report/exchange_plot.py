"""Steps by the way of exchange as one HTML page of bars, drawn by rich."""

from __future__ import annotations

import io
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightwork.disk import replacing
from lightwork.report.exchange import Exchange, milliseconds, name, show, size

BAR = 60
"""Characters of the longest."""
COMPUTE, EXPOSED = "blue", "red"
WIDTH = 150


def write(path: Path, exchange: Exchange, advice: str) -> None:
    """The bars, the table and the advice; ``path`` is whole or as it was."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, color_system="truecolor")
    console.print(_bars(exchange))
    console.print(_legend())
    show(console, exchange, advice)
    with replacing(path) as draft:
        draft.write_text(console.export_html(inline_styles=True), encoding="utf-8")


def _bars(exchange: Exchange) -> Table:
    longest_s = max(exchange.step_s(way) for way in exchange.ways)
    table = Table(box=None, show_header=False, pad_edge=False)
    for way in exchange.ways:
        computing_s = min(median(exchange.compute_s), exchange.step_s(way))
        ends = [round(BAR * seconds / longest_s) for seconds in (computing_s, exchange.step_s(way))]
        bar = Text("█" * ends[0], COMPUTE).append("█" * (ends[1] - ends[0]), EXPOSED)
        label = f"{name(way)}, {size(way.bucket_bytes)}"
        table.add_row(Text(label), bar, Text(f"{milliseconds([exchange.step_s(way)])} ms"))
    return table


def _legend() -> Text:
    return (
        Text("█ ", COMPUTE)
        .append("forward and backward   ", "default")
        .append("█ ", EXPOSED)
        .append("exchange that shows\n", "default")
    )
