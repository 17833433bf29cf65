"""From what was measured of an exchange to a sentence that says what to do, and why."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from lightwork.report.communication import EXPOSED
from lightwork.report.exchange import Exchange, Way, size

SAME = 0.05
"""Steps that differ by less are equally long: the measurement tells no more."""
OF_THE_LINE = 0.5
"""An exchange that takes the ideal by this share or more is held up by the line."""
ORDER = ("all_reduce", "ring", "tree")
"""Of equally long ones the first is named: it is the plainest."""


@dataclass(frozen=True)
class Advice:
    """What to set."""

    settings: dict[str, Any]
    """``strategy``, ``rows``, ``bucket_bytes``."""
    change: bool
    """Whether that is something else than now."""
    matters: bool
    """Whether exchange is what holds training up here."""
    words: str


def advise(exchange: Exchange) -> Advice:
    """Leave what hides; otherwise name the way with the shortest step."""
    now = exchange.ways[exchange.current]
    if not now.exposed_s:
        return Advice(now.settings, change=False, matters=False, words=_unknown(now))
    if exchange.exposed_s(now) <= EXPOSED * exchange.step_s(now):
        return Advice(now.settings, change=False, matters=False, words=_hidden(exchange, now))
    best = _best(exchange, now)
    words = _stays(exchange, now) if best is now else _other(exchange, now, best)
    return Advice(best.settings, change=best is not now, matters=True, words=words)


def _best(exchange: Exchange, now: Way) -> Way:
    known = [way for way in exchange.ways if way.exposed_s]  # of ddp it is not: a yardstick only
    least_s = min(exchange.step_s(way) for way in known)
    enough = [way for way in known if exchange.step_s(way) <= (1 + SAME) * least_s]
    if now in enough:
        return now
    place = {name: number for number, name in enumerate(ORDER)}
    last = len(ORDER)
    return min(
        enough,
        key=lambda way: (
            place.get(way.strategy, last),
            not way.rows,
            way.bucket_bytes != now.bucket_bytes,
        ),
    )


def _hidden(exchange: Exchange, now: Way) -> str:
    gain = exchange.step_s(now) / median(exchange.compute_s)
    return (
        f"leave {_named(now)}: exchange hides behind backward. What shows of it is "
        f"{_of_step(exchange, now)}, so no other way could make training more than {gain:.2f} "
        "times as fast"
    )


def _unknown(now: Way) -> str:
    return (
        f"sync.strategy={now.strategy} waits inside backward, so what shows of its exchange is not "
        "known; compare the steps, and give sync.strategy=all_reduce for advice"
    )


def _stays(exchange: Exchange, now: Way) -> str:
    return (
        f"leave {_named(now)}: {_reason(exchange, now)}. What shows of it is "
        f"{_of_step(exchange, now)}, but no other way is faster here. A larger train.batch_size "
        "exchanges less often; docs/sync.md says at which price"
    )


def _other(exchange: Exchange, now: Way, best: Way) -> str:
    before, after = exchange.step_s(now), exchange.step_s(best)
    return (
        f"set {_named(best, now)}: {_reason(exchange, now)}; so a step takes "
        f"{after:.3g} s instead of the {before:.3g} s of {_named(now, best)}"
    )


def _named(way: Way, other: Way | None = None) -> str:
    """As settings; beside another way only what tells them apart, and always the strategy."""
    own, others = way.settings, other.settings if other else {}
    shown = [
        f"sync.{key}={size(value) if key == 'bucket_bytes' else value}"
        for key, value in own.items()
        if key == "strategy" or (value != others.get(key) if other else key == "rows")
    ]
    return " ".join(shown)


def _reason(exchange: Exchange, way: Way) -> str:
    ideal_s, rate = exchange.ideal_s(way), exchange.link.slowest / 1e6
    took_s = median(way.transfer_s)
    if ideal_s >= OF_THE_LINE * took_s:
        return (
            f"the line between ranks is the limit, its {rate:,.1f} MB/s need at least "
            f"{ideal_s:.3g} s for {way.summed_bytes / 1e6:,.1f} MB of gradients beside "
            f"{median(exchange.compute_s):.3g} s of computing"
        )
    return (
        f"messages cost {took_s:.3g} s here, although the line could carry them in {ideal_s:.2g} s"
    )


def _of_step(exchange: Exchange, way: Way) -> str:
    shown_s, step_s = exchange.exposed_s(way), exchange.step_s(way)
    return f"{shown_s:.2g} s of a step of {step_s:.3g} s ({shown_s / step_s:.0%})"
