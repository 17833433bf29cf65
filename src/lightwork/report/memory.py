"""Memory that is nearly used up, or that a step does not give back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightwork.report.finding import Finding, made
from lightwork.report.fixed_costs import used_part
from lightwork.report.steps import Numbers, Steps

FULL = 0.92
"""Of the memory: the next batch of long windows may be too much."""
QUARTERS = 4
STEADY = 0.5
"""Of the mean growth that each quarter of the steps has to show: what fills up slows down."""
GROWN, LEAST_BYTES = 0.25, 128 << 20
"""Growth over the steps that counts: of what was held at first, and at least."""
FEWEST = 16


def memory(steps: Steps) -> Iterator[Finding]:
    """A leak, or no room left."""
    leaks = list(_leaks(steps))
    yield from leaks
    used = used_part(steps)
    if not leaks and used is not None and used > FULL:
        parts = steps["memory_bytes"] / steps["memory_total_bytes"]
        rank = int(np.nanargmax(parts.max(axis=1)))
        yield made(
            steps,
            "memory",
            0.0,
            f"rank {rank} has held {used:.0%} of its memory, "
            f"{_gb(float(np.nanmax(steps['memory_bytes'][rank])))} of "
            f"{_gb(float(np.nanmax(steps['memory_total_bytes'][rank])))}",
            "a lower train.micro_batch_tokens, or auto, which leaves room; "
            "train.activation_checkpointing=true needs less",
            rank=rank,
        )


def _leaks(steps: Steps) -> Iterator[Finding]:
    """The rank that grows fastest, of those that grow steadily."""
    grown = [
        (growth, rank, name)
        for name in ("private_bytes", "memory_bytes")
        for rank, own in enumerate(steps[name])
        if (growth := _growth(steps.numbers.astype(np.float64), own))
    ]
    # Where a process holds nothing but its own, both tell the same; the first is the cause.
    for growth, rank, name in sorted(grown, key=lambda one: (one[2] == "memory_bytes", -one[0])):
        own = "of the host" if name == "private_bytes" else "for tensors"
        first, last = steps.numbers[0], steps.numbers[-1]
        held = steps[name][rank]
        yield made(
            steps,
            "memory",
            0.0,
            f"rank {rank} holds {growth / 1e6:,.1f} MB more memory {own} after every step: from "
            f"{_gb(float(held[0]))} at step {first} to {_gb(float(held[-1]))} at step {last}",
            f"{_left(steps, rank, growth)}look for what keeps tensors or lists from step to step, "
            "such as a loss that is added up without .item(); a run that goes on after a restart "
            "begins with empty memory",
            rank=rank,
        )
        return


def _growth(numbers: Numbers, held: Numbers) -> float:
    """Bytes a step; 0 where it is not steady, or not worth a word.

    The medians of the quarters must rise each time, by half the mean rise at least: caches
    and pools that fill up do so ever more slowly, a leak does not.
    """
    known = ~np.isnan(held)
    if known.sum() < FEWEST:
        return 0.0
    pieces = np.array_split(np.stack([numbers[known], held[known]]), QUARTERS, axis=1)
    steps, levels = np.array([np.median(piece, axis=1) for piece in pieces]).T
    rises = np.diff(levels)
    total = float(levels[-1] - levels[0]) * QUARTERS / (QUARTERS - 1)
    if total < max(LEAST_BYTES, GROWN * float(levels[0])) or rises.min() < STEADY * rises.mean():
        return 0.0
    return float((levels[-1] - levels[0]) / (steps[-1] - steps[0]))


def _left(steps: Steps, rank: int, growth: float) -> str:
    free = float(steps["memory_total_bytes"][rank][-1] - steps["memory_bytes"][rank][-1])
    return "" if np.isnan(free) else f"memory lasts for some {max(free, 0) / growth:,.0f} steps; "


def _gb(count: float) -> str:
    return f"{count / 1e9:.2f} GB"
