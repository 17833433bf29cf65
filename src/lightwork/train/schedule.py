"""The learning rate is a pure function of the step; ranks and resumes do not count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

LrRule = Literal["none", "sqrt", "linear"]


def scaled_rate(rate: float, batch_size: int, reference: int | None, rule: LrRule) -> float:
    """The rate for a batch of ``batch_size`` where ``rate`` was chosen for one of ``reference``.

    ``linear`` multiplies by the ratio of the batches (Goyal et al., "Accurate, Large Minibatch
    SGD", 2017), ``sqrt`` by its root, as is usual with Adam (Malladi et al., "On the SDEs and
    Scaling Rules for Adaptive Gradient Algorithms", 2022).
    """
    if rule == "none" or reference is None:
        return rate
    ratio = batch_size / reference
    return rate * (ratio if rule == "linear" else math.sqrt(ratio))


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up to ``peak``, then ``kind`` down to 0 (or constant) over ``total_steps``.

    Step k (from 1) of the warm-up has peak * k / warmup_steps. ``linear`` then falls in equal
    parts so that a step after the last would have 0; ``cosine`` follows half a cosine (Loshchilov
    and Hutter, "SGDR", 2017).
    """

    peak: float
    total_steps: int
    warmup_ratio: float
    kind: Literal["linear", "cosine", "constant"]

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up, rounded up."""
        return math.ceil(self.total_steps * self.warmup_ratio)

    def learning_rate(self, step: int) -> float:
        """The rate used by update ``step``, 1 … total_steps."""
        if step <= self.warmup_steps:
            return self.peak * step / self.warmup_steps
        if self.kind == "constant":
            return self.peak
        falling = self.total_steps - self.warmup_steps
        done = (step - 1 - self.warmup_steps) / falling
        if self.kind == "linear":
            return self.peak * (1 - done)
        return self.peak * (1 + math.cos(math.pi * done)) / 2
