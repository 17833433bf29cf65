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

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)

_AT_ONCE = 1 << 14
"""Keys that are there at a time, about."""


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _state(name: tuple[int, ...]) -> NDArray[np.uint64]:
    """What the numbers of a stream are made from, shape (1,)."""
    state = np.zeros(1, dtype=np.uint64)
    for number in name:
        state = _mix(state + _GOLDEN + np.array([number], dtype=np.int64).view(np.uint64))
    return state


def _keys(state: NDArray[np.uint64], places: NDArray[np.integer]) -> NDArray[np.uint64]:
    """The numbers at these places of a stream; its first is at place 0."""
    return _mix(state + _GOLDEN * (places.astype(np.uint64) + np.uint64(1)))


def stream_keys(count: int, *name: int) -> NDArray[np.uint64]:
    """``count`` 64-bit numbers of the stream ``name``; any prefix of them is the same."""
    return _keys(_state(name), np.arange(count))


def stream_seed(*name: int) -> int:
    """One seed in [0, 2**63) for the stream ``name``, fit for ``torch.manual_seed``."""
    return int(stream_keys(1, *name)[0] >> np.uint64(1))


def shuffled(count: int, *name: int) -> NDArray[np.int32]:
    """A permutation of ``range(count)`` drawn from the stream ``name``.

    It is the order of the stream's first ``count`` keys. Sorting them all at once would need five
    times the memory of the result, so the numbers are first dealt to drawers by the leading bits of
    their keys, as in a radix sort, and each drawer is sorted by itself. A key is a function of its
    place, so it is made again where it is needed and never kept.
    """
    state = _state(name)
    bits = min(16, max(1, (count // _AT_ONCE).bit_length()))
    order = np.empty(count, np.int32)
    stops = _deal(order, state, bits).tolist()
    for start, stop in itertools.pairwise([0, *stops]):
        drawer = order[start:stop]
        drawer[:] = drawer[np.argsort(_keys(state, drawer), kind="stable")]
    return order


def _deal(order: NDArray[np.int32], state: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Fill ``order`` with its places, drawer after drawer; returns where each drawer ends."""
    sizes = np.zeros(1 << bits, np.int64)
    for _, drawers in _drawers(len(order), state, bits):
        sizes += np.bincount(drawers, minlength=len(sizes))
    free = np.cumsum(sizes) - sizes  # where the next one of each drawer goes
    for places, drawers in _drawers(len(order), state, bits):
        by_drawer = np.argsort(drawers, kind="stable")
        drawer = drawers[by_drawer]
        sizes = np.bincount(drawer, minlength=len(free))
        in_drawer = np.arange(len(drawer)) - (np.cumsum(sizes) - sizes)[drawer]
        order[free[drawer] + in_drawer] = places[by_drawer]
        free += sizes
    return free


def _drawers(
    count: int, state: NDArray[np.uint64], bits: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint16]]]:
    """``range(count)`` in pieces, each with the leading ``bits`` of its keys."""
    for first in range(0, count, _AT_ONCE):
        places = np.arange(first, min(count, first + _AT_ONCE))
        yield places, (_keys(state, places) >> np.uint64(64 - bits)).astype(np.uint16)
