"""A rank whose loss is out of line, and steps whose gradient is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lightwork.report.finding import Finding, beside, made, typical
from lightwork.report.steps import Course, Numbers, Steps

BAD_SHARD, LEAST_LOSS = 2.0, 0.2
"""Times the loss of the others, and so much above it."""
SPIKE, DEVIATIONS = 5.0, 6.0
"""Times the median of the steps before it, and robust deviations of its logarithm from theirs."""
BEFORE, FEWEST_BEFORE = 100, 20
"""Steps that tell how much norms spread, and how many tell where they are."""
ABOVE_ALL = 30
"""Steps of which none may have had half the norm: where they are frequent they are no spikes."""
WHOLE = 0.5
"""Of the windows of the median batch, that a batch must have."""
NARROW = 0.1
"""Of the logarithm: steps that hardly differ at all do not make a small difference large."""
SHOWN_STEPS = 5


def bad_shard(steps: Steps) -> Iterator[Finding]:
    """A rank whose loss is out of line with the others'."""
    if steps.ranks < 2:
        return
    loss = steps["rank_loss"]
    for rank in range(steps.ranks):
        others = beside(loss, rank)
        own_level, level = typical(np.stack([loss[rank], others]))
        if not (own_level > BAD_SHARD * level and own_level > level + LEAST_LOSS):
            continue
        worst = np.argsort(np.nan_to_num(others - loss[rank], nan=np.inf))[:SHOWN_STEPS]
        yield made(
            steps,
            "bad_shard",
            0.0,
            f"the loss of rank {rank} is {own_level / level:.1f} times that of the others "
            f"({own_level:.2f}, not {level:.2f}), although windows are dealt anew in every epoch",
            f"run lightwork verify, and suspect the data that rank {rank} reads, its card or its "
            "memory",
            rank=rank,
            factor=float(own_level / level),
            at_steps=tuple(int(step) for step in steps.numbers[worst]),
        )


def spikes(steps: Steps, course: Course | None = None) -> Iterator[Finding]:
    """Steps whose gradient is far out of line with those before; ``course`` None: of these only."""
    names = ("loss", "grad_norm", "batch_windows")
    course = course or Course(steps.numbers, *(steps[name][0] for name in names))
    if not len(course.numbers):
        return  # rank 0 has recorded nothing
    # The last batch of an epoch may be a few windows, whose gradient is mostly chance.
    whole = course.batch_windows >= WHOLE * np.median(course.batch_windows)
    times = jumps(np.where(whole, course.grad_norm, np.nan))
    found = np.flatnonzero(times)
    if not len(found):
        return
    worst = found[np.argsort(-times[found])]
    step = int(course.numbers[worst[0]])
    shown = ", ".join(str(int(course.numbers[place])) for place in worst[:SHOWN_STEPS])
    rank, windows = _behind(steps, step)
    more = f" (and {len(found) - SHOWN_STEPS} more)" if len(found) > SHOWN_STEPS else ""
    loss = _loss_beside(course, int(worst[0]))
    yield made(
        steps,
        "spike",
        0.0,
        f"the gradient norm jumps at step {shown}{more}: to {course.grad_norm[worst[0]]:.3g} at "
        f"step {step}, {times[worst[0]]:.0f} times that of the steps before; {loss}",
        "look at the examples of that step: wrong answers, or texts that are no text",
        rank=rank,
        factor=float(times[worst[0]]),
        at_steps=tuple(int(course.numbers[place]) for place in worst[:SHOWN_STEPS]),
        windows=tuple(windows),
    )


def jumps(values: Numbers) -> Numbers:
    """By step, how many times the median of the steps before it, where that is out of line; or 0.

    Judged by logarithms, since norms spread by factors. Only steps before count, so that a norm
    that falls from a high start is no spike; and how much they spread is told by the median of
    their differences from one step to the next, which neither such a fall nor a few spikes move.
    """
    logs = np.log(np.where(values > 0, values, np.nan))
    found = np.zeros(len(logs))
    for place in _highest(logs):
        before = logs[max(0, place - BEFORE) : place]
        before = before[~np.isnan(before)]
        if len(before) < FEWEST_BEFORE:
            continue
        differences = np.abs(np.diff(before))
        spread = max(NARROW, 1.4826 * float(np.median(differences)) / np.sqrt(2))
        off = float(logs[place] - np.median(before[-FEWEST_BEFORE:]))
        above = float(logs[place] - before[-ABOVE_ALL:].max())
        if off > max(np.log(SPIKE), DEVIATIONS * spread) and above > np.log(2):
            found[place] = np.exp(off)
    return found


def _highest(values: Numbers) -> NDArray[np.int64]:
    """Places of values above all of those just before them: few enough to look closely at."""
    if len(values) <= FEWEST_BEFORE:
        return np.zeros(0, np.int64)
    known = np.where(np.isnan(values), -np.inf, values)
    before = np.lib.stride_tricks.sliding_window_view(known[:-1], FEWEST_BEFORE)
    higher = known[FEWEST_BEFORE:] > before.max(axis=1)
    return np.flatnonzero(higher).astype(np.int64) + FEWEST_BEFORE


def _behind(steps: Steps, step: int) -> tuple[int | None, list[int]]:
    """The rank whose micro-batch is to blame and its windows, where the records say."""
    blamed = [rank for (rank, number) in steps.far_windows if number == step]
    if not blamed:
        return None, []
    place = int(np.searchsorted(steps.numbers, step))
    rank = max(blamed, key=lambda rank: np.nan_to_num(steps["worst_loss"][rank, place]))
    return rank, steps.far_windows[rank, step]


def _loss_beside(course: Course, place: int) -> str:
    before = course.loss[max(0, place - BEFORE) : place]
    return f"the loss is {course.loss[place]:.3g}, after {np.nanmedian(before):.3g}"
