"""Two that ran in the same rounds: the median of their ratios, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A median with its bootstrap interval."""

    median: float
    low: float
    high: float
    count: int
    """Of the values it is the median of."""

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} – {self.high:.3f})"


def median_interval(values: NDArray[np.float64]) -> Interval:
    """The median and its 95 % percentile interval (Efron, "Bootstrap methods", 1979).

    ``values`` has shape (rounds,) and is taken as drawn independently. The same values always give
    the same interval.
    """
    draws = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(draws, axis=1), [tail, 1 - tail])
    return Interval(float(np.median(values)), float(low), float(high), len(values))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Of what two took in the same rounds, taken round by round: both met the same machine."""
    return median_interval(np.asarray(numerators) / np.asarray(denominators))
