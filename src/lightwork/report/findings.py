"""What holds a run up: one rule for each cause, on the medians of its newest steps.

Each finding says how many seconds of a step it costs at most, so that they can be compared. What
counts as much is a number beside its rule; docs/timeline.md says why it is that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lightwork.report.communication import communication
from lightwork.report.finding import (
    Finding,
    beside,
    computed_s,
    made,
    of_step,
    typical,
    wall_s,
)
from lightwork.report.fixed_costs import micro_batches, room
from lightwork.report.memory import memory
from lightwork.report.outliers import bad_shard, spikes
from lightwork.report.steps import Course, Numbers, Steps

STRAGGLER = 1.2
"""A rank that takes so many times as long as the others for the same tokens is named."""
MOSTLY = 2 / 3
"""Of the steps, in which it is half as much slower at least: none of two that are slow in turn."""
WAITED = 0.05
"""Of a step, that the others wait for it."""
DATA = 0.10
"""Of all time."""
IMBALANCE = 0.08
"""Of a step, waiting for shares that cost more, not for a slower rank."""
PADDING = 0.15
DUTIES = 0.20
"""Of all the time, in checks, saves and evaluations."""
COMPARED = ("copy", "forward", "backward", "sync", "optimizer", "other")
"""Parts in which a rank can be slow by itself; that its data comes late is another cause."""


def findings(steps: Steps, course: Course | None = None) -> list[Finding]:
    """All causes that count, the dearest first, and warnings; ``compute`` where there is none.

    ``course``: of all steps, to look for single ones out of line; None: only among ``steps``.
    """
    found = [finding for rule in RULES for finding in rule(steps)]
    found += spikes(steps, course)
    costly = sorted(found, key=lambda finding: -finding.saved_s)
    return costly or [_compute(steps)]


def _per_token(steps: Steps, seconds: Numbers) -> Numbers:
    """For a padded token, ``[ranks, steps]``; of a rank that has none, nan."""
    return seconds / np.where(steps["padded_tokens"] > 0, steps["padded_tokens"], np.nan)


def _times(steps: Steps, rank: int) -> Numbers:
    """By step, how many times as long as the others a rank takes for its tokens; some may be nan.

    Step by step, since all ranks had windows of the same batch: long or short ones cost otherwise.
    """
    pace = _per_token(steps, steps["busy_s"] - steps["data_s"])
    return np.asarray(pace[rank] / beside(pace, rank), np.float64)


def _slow_rank(steps: Steps) -> tuple[int, float] | None:
    """The rank that is slow by itself, and how many times as slow as the others."""
    if steps.ranks < 2:
        return None
    times = np.array([_times(steps, rank) for rank in range(steps.ranks)])
    factors = typical(times)
    if np.isnan(factors).all():
        return None
    slow = int(np.nanargmax(factors))
    mostly = float(np.nanquantile(times[slow], 1 - MOSTLY))
    if factors[slow] < STRAGGLER or mostly < (1 + STRAGGLER) / 2:
        return None
    return (slow, float(factors[slow])) if _waited_s(steps, slow) > WAITED * wall_s(steps) else None


def _waited_s(steps: Steps, slow: int) -> float:
    return float(np.delete(typical(steps["wait_s"]), slow).mean())


def straggler(steps: Steps) -> Iterator[Finding]:
    """A card that is slower than the others at the same work."""
    found = _slow_rank(steps)
    if found is None:
        return
    slow, factor = found
    excess = {}
    for part in COMPARED:
        pace = _per_token(steps, steps[f"{part}_s"])
        excess[part] = float(typical((pace[slow] - beside(pace, slow))[None])[0])
    part = max(excess, key=lambda name: excess[name])
    more = excess[part] / sum(value for value in excess.values() if value > 0)
    waited_s = _waited_s(steps, slow)
    yield made(
        steps,
        "straggler",
        waited_s,
        f"rank {slow} takes {factor:.2f} times as long as the others for the same tokens, most of "
        f"it in {part} ({more:.0%}); they wait for it {of_step(steps, waited_s)}",
        "look at that card: its temperature and clocks, other programs on it, its place in the "
        f"machine; {_without(steps, waited_s)}",
        rank=slow,
        factor=factor,
        part=part,
    )


def _without(steps: Steps, waited_s: float) -> str:
    """What leaving the slow rank out comes to: nobody waits, and the others have its work too."""
    left_s = (wall_s(steps) - waited_s) * steps.ranks / (steps.ranks - 1)
    gain = wall_s(steps) / left_s
    if gain > 1.02:
        return f"without it (--devices) the others would be {gain:.2f} times as fast as now"
    return "leaving it out gains nothing: the others would take as long for its work"


def data(steps: Steps) -> Iterator[Finding]:
    """The data comes too late."""
    # Of all time: a reader that falls behind often lets a rank wait now and then, but long.
    late = wall_s(steps) * steps["data_s"].sum(axis=1) / steps["step_s"].sum(axis=1)
    late_s = float(late.max())
    if late_s > DATA * wall_s(steps):
        most = f", most of it rank {int(late.argmax())}" if steps.ranks > 1 else ""
        yield made(
            steps,
            "data",
            late_s,
            f"ranks wait for data {of_step(steps, late_s)}{most}",
            "prepare the data before (lightwork prepare), put data.cache on a local disk, and look "
            "for what else reads it or takes the cores that read ahead",
            part="data",
        )


def imbalance(steps: Steps) -> Iterator[Finding]:
    """Shares of unequal cost, as far as their tokens tell: a card that is slow is another cause."""
    tokens = steps["padded_tokens"]
    mean = np.maximum(tokens.mean(axis=0), 1)
    over = np.median((tokens.max(axis=0) - mean) / mean)
    by_tokens_s = float(over) * float(typical(steps["busy_s"]).mean())
    waited_s = min(by_tokens_s, float(typical(steps["wait_s"]).mean()))
    if _slow_rank(steps) is None and waited_s > IMBALANCE * wall_s(steps):
        yield made(
            steps,
            "imbalance",
            waited_s,
            f"ranks wait for each other {of_step(steps, waited_s)}: in the median step the longest "
            f"part has {1 + over:.2f} times the tokens of the mean one",
            "a larger train.batch_size leaves more choice to cut equal shares; windows of very "
            "different length want a smaller data.max_length; a number of ranks that divides "
            "train.shares gives each the same",
        )


def padding(steps: Steps) -> Iterator[Finding]:
    """Tokens that are computed for nothing."""
    wasted = 1 - float(steps["real_tokens"].sum() / max(steps["padded_tokens"].sum(), 1))
    if wasted > PADDING:
        yield made(
            steps,
            "padding",
            wasted * computed_s(steps),
            f"{wasted:.0%} of the tokens are padding",
            "a larger train.batch_size or more micro-batches (train.micro_batch_tokens) put "
            "windows of like length together",
        )


def duties(steps: Steps) -> Iterator[Finding]:
    """Checks, saves and evaluations between steps."""
    own_s = float(steps["duties_s"].mean())
    if own_s > DUTIES * (wall_s(steps) + own_s):
        yield made(
            steps,
            "duties",
            own_s * wall_s(steps) / (wall_s(steps) + own_s),
            f"checks, saves and evaluations take {own_s:.2f} s between two steps, in the mean",
            "a higher train.evaluate_every_steps or checkpoint.every_steps; half as often saves "
            f"{own_s / (wall_s(steps) + own_s) / 2:.0%} of all time",
        )


def _compute(steps: Steps) -> Finding:
    work_s = computed_s(steps)
    twice = wall_s(steps) / (wall_s(steps) - work_s / 2)
    return made(
        steps,
        "compute",
        0.0,
        f"forward and backward take {of_step(steps, work_s)}, and nothing else counts",
        f"more cards (twice as many: up to {twice:.2f} times as fast), train.precision=bf16 on "
        "GPUs that have it, or a smaller model",
    )


RULES: tuple[Callable[[Steps], Iterator[Finding]], ...] = (
    straggler, communication, data, imbalance, micro_batches, padding, duties, room, memory,
    bad_shard,
)  # fmt: skip
