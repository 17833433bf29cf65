"""Ways to exchange gradients side by side, on the ranks and for the model at hand.

Bus bandwidth is that of nccl-tests (doc/PERFORMANCE.md there): what an all-reduce moves over each
rank's line, 2 (n - 1) / n times the bytes that are summed, by the time it takes. It is to be held
against the speed of the line itself, whatever the number of ranks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.text import Text

from lightwork.report.listing import Column, show_columns

NOTHING = "one rank: there is nothing to exchange. Give --ranks 2 or more"


def nothing(as_json: bool) -> str:
    """What there is to say of one rank."""
    told = {"ranks": 1, "ways": [], "advice": {"words": NOTHING}}
    return json.dumps(told, indent=2) if as_json else NOTHING


@dataclass(frozen=True)
class Link:
    """The line between neighbours, one stream at a time, nothing else under way."""

    bytes_per_s: list[float]
    """From rank r to the next one, the last to the first."""
    latency_s: float
    """Of a message of a few bytes, one way, between the two that take longest."""

    @property
    def slowest(self) -> float:
        """Bytes a second of the line that all wait for."""
        return min(self.bytes_per_s)


@dataclass(frozen=True)
class Way:
    """One way to exchange, and what was measured of it; seconds are of the slowest rank."""

    strategy: str
    rows: bool
    """Whether of the word embeddings only the rows travel that the batch touches."""
    asked: str
    """The value of ``sync.rows`` that does so: ``auto`` where it comes to the same."""
    bucket_bytes: int | str
    summed_bytes: float
    """Of a gradient, the mean over the batches."""
    sent_bytes: float
    """By each rank, over its line."""
    whole_s: list[float]
    """Forward, backward and exchange of a batch, as measured."""
    exposed_s: list[float] = field(default_factory=list)
    """For so long of it the slowest rank stood still for messages, which waits for no other:
    ``transfer_s`` in the records of a run. Empty where that cannot be told."""
    transfer_s: list[float] = field(default_factory=list)
    """The exchange alone, nothing beside it; empty where there is no such thing."""

    @property
    def settings(self) -> dict[str, Any]:
        """What to set to exchange so."""
        rows = {} if self.strategy == "ddp" else {"rows": self.asked}
        return {"strategy": self.strategy, **rows, "bucket_bytes": self.bucket_bytes}


@dataclass(frozen=True)
class Exchange:
    """Everything that was measured."""

    ranks: int
    title: str
    """Model, device and batch in words."""
    gradient_bytes: int
    link: Link
    compute_s: list[float]
    """Forward and backward of a batch, nothing sent."""
    ways: list[Way]
    current: int
    """Of the ways, the one that the settings name."""
    left_out: dict[str, str]
    """Strategy -> why it was not measured."""

    @property
    def factor(self) -> float:
        """What every rank has to send at least, by what is summed."""
        return 2 * (self.ranks - 1) / self.ranks

    def ideal_s(self, way: Way) -> float:
        """The least that its bytes need on the slowest line."""
        return self.factor * way.summed_bytes / self.link.slowest

    def bus_bytes_per_s(self, way: Way) -> float | None:
        """See above; None where the exchange alone was not measured."""
        return self.factor * way.summed_bytes / median(way.transfer_s) if way.transfer_s else None

    def exposed_s(self, way: Way) -> float:
        """What of an exchange shows."""
        return median(way.exposed_s)

    def step_s(self, way: Way) -> float:
        """Computing, which is the same in every way, and what shows of the exchange; the whole as
        measured where that is not known."""
        if not way.exposed_s:
            return median(way.whole_s)
        return median(self.compute_s) + self.exposed_s(way)

    def as_json(self) -> dict[str, Any]:
        """All of it, and what follows."""
        ways = [
            {
                **asdict(way),
                "ideal_s": self.ideal_s(way),
                "bus_bytes_per_s": self.bus_bytes_per_s(way),
                "step_s": self.step_s(way),
            }
            for way in self.ways
        ]
        return {**asdict(self), "ways": ways}


def show(console: Console, exchange: Exchange, advice: str) -> None:
    """Print what was measured and what to do."""
    for line in (*_head(exchange), ""):
        console.print(Text(line), soft_wrap=True)
    show_columns(console, columns(exchange))
    for name, reason in exchange.left_out.items():
        console.print(Text(f"{name} was not measured: {reason}"), soft_wrap=True)
    console.print(Text(f"\n{advice}"), soft_wrap=True)


def _head(exchange: Exchange) -> list[str]:
    rates = [rate / 1e6 for rate in exchange.link.bytes_per_s]
    slow = rates.index(min(rates))
    pairs = f"; the slowest is {_to(slow, exchange.ranks)}, the fastest has {max(rates):,.0f} MB/s"
    return [
        exchange.title,
        f"a stream between neighbours: {min(rates):,.1f} MB/s, a message takes "
        f"{1e6 * exchange.link.latency_s:,.0f} µs{pairs if exchange.ranks > 2 else ''}",
        f"forward and backward of a batch: {spread(exchange.compute_s)} ms",
    ]


def _to(rank: int, ranks: int) -> str:
    return f"{rank} to {(rank + 1) % ranks}"


def columns(exchange: Exchange) -> list[Column]:
    """A row for every way; milliseconds are medians, in brackets the least and the most."""
    ways = exchange.ways
    bus = [exchange.bus_bytes_per_s(way) for way in ways]
    shares = [rate / exchange.link.slowest if rate else None for rate in bus]
    return [
        Column("strategy", [name(way) for way in ways]),
        Column("buckets", [size(way.bucket_bytes) for way in ways], number=True),
        Column("MB summed", [f"{way.summed_bytes / 1e6:,.1f}" for way in ways], number=True),
        Column("MB sent", [f"{way.sent_bytes / 1e6:,.1f}" for way in ways], number=True),
        Column("alone, ms", [spread(way.transfer_s) for way in ways], number=True),
        Column("bus, MB/s", [_cell(rate and rate / 1e6, ",.1f") for rate in bus], number=True),
        Column("of the ideal", [_cell(share, ".0%") for share in shares], number=True),
        Column("exposed, ms", [spread(way.exposed_s) for way in ways], number=True),
        Column("step, ms", [spread(way.whole_s) for way in ways], number=True),
    ]


def name(way: Way) -> str:
    """The strategy, and whether it sends touched rows only."""
    return f"{way.strategy}, rows" if way.rows else way.strategy


def size(count: int | str) -> str:
    """Bytes as settings are written."""
    if isinstance(count, str) or count % 2**10:
        return str(count)
    return f"{count // 2**20}MiB" if count % 2**20 == 0 else f"{count // 2**10}KiB"


def spread(seconds: Sequence[float]) -> str:
    """Milliseconds: median, least and most."""
    if not seconds:
        return "-"
    least, most = (milliseconds([end(seconds)]) for end in (min, max))
    return f"{milliseconds(seconds)} ({least} – {most})"


def milliseconds(seconds: Sequence[float]) -> str:
    """Of the median."""
    return f"{1000 * median(seconds):,.1f}"


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
