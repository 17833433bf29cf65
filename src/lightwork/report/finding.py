"""One cause of lost time, or a warning: its evidence, what to do, and what that would gain."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from lightwork.report.steps import Numbers, Steps

Kind = Literal[
    "straggler", "communication", "data", "imbalance", "micro_batches", "padding", "duties",
    "memory", "bad_shard", "spike", "compute",
]  # fmt: skip
WARNINGS = ("memory", "bad_shard", "spike")
"""These cost no time yet, and are said beside what does."""


@dataclass(frozen=True)
class Finding:
    """One cause, its evidence and what can be done."""

    kind: Kind
    words: str
    todo: str
    saved_s: float
    """Seconds of a step that would be saved if it were gone altogether."""
    speedup: float
    """How many times as fast the run would be then, at most."""
    rank: int | None = None
    factor: float | None = None
    part: str | None = None
    """The part of a step that it is in, where it is in one."""
    at_steps: tuple[int, ...] = ()
    """Those that show it best, the worst first, where single ones do."""
    windows: tuple[int, ...] = ()
    """The windows behind it, where the records name them."""
    examples: tuple[str, ...] = ()
    """The ids of the examples behind it, where somebody has looked them up."""

    @property
    def warns(self) -> bool:
        """Whether it is a warning and no loss of time."""
        return self.kind in WARNINGS and self.saved_s == 0

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def made(steps: Steps, kind: Kind, saved_s: float, words: str, todo: str, **of: Any) -> Finding:
    """A finding, with what it would gain if its cause were gone."""
    left_s = max(wall_s(steps) - saved_s, 1e-9)
    return Finding(kind, words, todo, saved_s, wall_s(steps) / left_s, **of)


def typical(values: Numbers) -> Numbers:
    """The median of each rank; nan for one that has no number at all."""
    found = np.full(len(values), np.nan)
    for rank, own in enumerate(values):
        known = own[~np.isnan(own)]
        if len(known):
            found[rank] = np.median(known)
    return found


def wall_s(steps: Steps) -> float:
    """A step, as all ranks see it."""
    return float(typical(steps["step_s"]).mean())


def of_step(steps: Steps, seconds: float) -> str:
    """Seconds as a part of a step, in words."""
    return f"{seconds:.3g} s of {wall_s(steps):.3g} s a step ({seconds / wall_s(steps):.0%})"


def computed_s(steps: Steps) -> float:
    """Forward and backward of a step, in the mean over the ranks."""
    return float(typical(steps["forward_s"] + steps["backward_s"]).mean())


def beside(values: Numbers, rank: int) -> Numbers:
    """By step, the median of all other ranks; ``values`` ``[ranks, steps]``."""
    others = np.delete(values, rank, axis=0)
    found = np.full(values.shape[1], np.nan)
    known = ~np.isnan(others).all(axis=0)
    found[known] = np.nanmedian(others[:, known], axis=0)
    return found
