"""Random numbers that are a pure function of where they are used, never of what ran before.

A stream is named by a few whole numbers, such as (seed, step, share, micro-batch). Nothing stateful
needs saving, a repeated step draws what it drew the first time, and two ranks never share a stream
by accident (``seed + rank`` would make seed 1 on rank 1 equal seed 2 on rank 0).

The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable
pseudorandom number generators", OOPSLA 2014). It is spelled out here, instead of using NumPy's
generators, because NumPy does not promise the same permutation in every version and a run must be
resumable under another one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def stream_keys(count: int, *name: int) -> NDArray[np.uint64]:
    """``count`` 64-bit numbers of the stream ``name``; any prefix of them is the same."""
    state = np.zeros(1, dtype=np.uint64)
    for number in name:
        state = _mix(state + _GOLDEN + np.array([number], dtype=np.int64).view(np.uint64))
    return _mix(state + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64))


def stream_seed(*name: int) -> int:
    """One seed in [0, 2**63) for the stream ``name``, fit for ``torch.manual_seed``."""
    return int(stream_keys(1, *name)[0] >> np.uint64(1))


def shuffled(count: int, *name: int) -> NDArray[np.int32]:
    """A permutation of ``range(count)`` drawn from the stream ``name``."""
    return np.argsort(stream_keys(count, *name), kind="stable").astype(np.int32)
