"""What a micro-batch costs however small it is, and whether memory has room for larger ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightwork.report.finding import Finding, made
from lightwork.report.steps import Numbers, Steps

FIXED = 0.20
"""Of forward and backward, what micro-batches cost however small they are."""
ROOM, WORTH = 0.5, 0.10
"""So much of the memory is used at most, and so much of forward and backward is fixed at least:
larger micro-batches would pay and fit."""
SURE = 3.0
"""Standard errors that the fixed cost must be above nothing."""
OUTLYING = 4.0
"""Median deviations from the line, beyond which a step does not count: something else ran."""
FEWEST = 16
"""Steps to draw a line through."""


@dataclass(frozen=True)
class Fixed:
    """The fixed cost of micro-batches, over all ranks."""

    each_s: float
    part: float
    """Of forward and backward."""
    count: float
    """Micro-batches of a rank in a step."""
    tokens: float
    """Padded tokens of one."""

    @property
    def cost_s(self) -> float:
        """In a step."""
        return self.each_s * self.count

    def saved_s(self, times: float) -> float:
        """In a step, if micro-batches were ``times`` as large; there is at least one."""
        return self.each_s * (self.count - max(1.0, self.count / times))


def fixed_cost(steps: Steps) -> Fixed | None:
    """None where it cannot be told from the cost of tokens, or is not above nothing for sure.

    Least squares of forward and backward on micro-batches and tokens; of each rank by itself, since
    a slow one has another line, and the mean.
    """
    seconds = steps["forward_s"] + steps["backward_s"]
    counts, tokens = steps["micro_batches"], steps["padded_tokens"]
    lines = [_line(*own) for own in zip(counts, tokens, seconds, strict=True)]
    found = np.array([line for line in lines if line is not None])
    if not len(found):
        return None
    each_s, error_s = float(found[:, 0].mean()), float(np.sqrt((found[:, 1] ** 2).sum()))
    if each_s <= SURE * error_s / len(found):
        return None
    count = float(counts.mean())
    part = each_s * count / float(seconds.mean())
    return Fixed(each_s, part, count, float(tokens.sum() / counts.sum()))


def _line(counts: Numbers, tokens: Numbers, seconds: Numbers) -> tuple[float, float] | None:
    """Seconds of a micro-batch by itself and their standard error; None where unknown.

    Twice: steps that take longer also vary more, and are weighed by what they take by the first
    line; those that are far from it do not count.
    """
    matrix = np.stack([counts, tokens], axis=1)
    weights, kept = np.ones(len(seconds)), np.ones(len(seconds), bool)
    for _ in range(2):
        own, times = (matrix * weights[:, None])[kept], (seconds * weights)[kept]
        if len(times) < FEWEST or np.linalg.matrix_rank(own / own.max(axis=0)) < 2:
            return None
        line, *_ = np.linalg.lstsq(own, times, rcond=None)
        expected = matrix @ line
        weights = 1 / np.maximum(expected, np.median(seconds) / 10)
        off = np.abs(seconds - expected) * weights
        kept = off <= OUTLYING * 1.4826 * np.median(off)
    rest = times - own @ line
    spread = float(rest @ rest) / (len(times) - 2) * np.linalg.inv(own.T @ own)
    return float(line[0]), float(np.sqrt(spread[0, 0]))


def micro_batches(steps: Steps) -> Iterator[Finding]:
    """Micro-batches so small that what each costs by itself counts."""
    if float(steps["micro_batches"].mean()) <= 1:
        return
    fixed = fixed_cost(steps)
    if fixed is None or fixed.part <= FIXED:
        return
    half_s = fixed.saved_s(2.0)
    yield made(
        steps,
        "micro_batches",
        fixed.saved_s(np.inf),
        f"a rank computes {fixed.count:.1f} micro-batches of {fixed.tokens:,.0f} tokens a step, "
        f"and each costs {1000 * fixed.each_s:.2g} ms however small it is: {fixed.part:.0%} of "
        "forward and backward",
        f"a higher train.micro_batch_tokens, or auto{_used(steps)}: with half as many, "
        f"{half_s:.3g} s a step are saved",
    )


def room(steps: Steps) -> Iterator[Finding]:
    """Most of the memory is free while micro-batches are small."""
    used = used_part(steps)
    if used is None or used > ROOM or float(steps["micro_batches"].mean()) < 2:
        return
    fixed = fixed_cost(steps)
    if fixed is None or not WORTH < fixed.part <= FIXED:
        return  # above, it is said already
    yield made(
        steps,
        "memory",
        fixed.saved_s(1 / used),
        f"{1 - used:.0%} of the memory is free, and a step is cut in {fixed.count:.1f} "
        f"micro-batches of {fixed.tokens:,.0f} tokens",
        f"a higher train.micro_batch_tokens, or auto: {1 / used:.1f} times as large would fit",
    )


def used_part(steps: Steps) -> float | None:
    """Of the memory for tensors, on the rank that uses most; None where it is not known."""
    parts = steps["memory_bytes"] / steps["memory_total_bytes"]
    return None if np.isnan(parts).all() else float(np.nanmax(parts))


def _used(steps: Steps) -> str:
    used = used_part(steps)
    return "" if used is None else f" ({used:.0%} of the memory is used)"
