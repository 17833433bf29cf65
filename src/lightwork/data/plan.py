"""Which windows form which batch, and how a batch is cut: three pure functions.

Only the last of them, :func:`assign`, knows the number of ranks. So the batches of a run, their
shares and their micro-batches are the same whatever the number of cards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightwork.data.streams import shuffled

Windows = NDArray[np.int32]

POOL_BATCHES = 256
"""Batches that are sorted by length together, at most: enough for little padding."""

ROUND_TO = 8
"""What lengths are padded to a multiple of, unless said otherwise; see :func:`round_to_on`."""

_ORDER, _BATCHES = 1, 2  # what a stream is drawn for


def round_to_on(device: str) -> int:
    """The multiple to which windows are padded on ``cpu`` or ``cuda``.

    Attention kernels of GPUs want the rows of a mask to begin at 16 bytes, which are eight numbers
    of half precision. On a CPU rounding would only be waste.
    """
    return 1 if device == "cpu" else ROUND_TO


class EpochPlan:
    """The batches of one epoch: every window exactly once, similar lengths together.

    ``lengths``: tokens of each window, shape (windows,). The last batch may be smaller. In epoch 0
    the batch with the most tokens comes first, so that too little memory shows in the first step
    and not after an hour. A position is (epoch, batch); the plan needs no other state.
    """

    def __init__(
        self, seed: int, epoch: int, lengths: NDArray[np.integer], batch_size: int
    ) -> None:
        count = len(lengths)
        order = shuffled(count, seed, epoch, _ORDER)
        # NumPy sorts numbers of 16 bits in linear time; the order is the same.
        kind: type[np.integer] = np.int16 if lengths.max(initial=0) < 1 << 15 else np.int32
        # At least two pools, or the windows of a small set would meet the same company each epoch.
        pool = min(POOL_BATCHES, max(1, count // (2 * batch_size))) * batch_size
        for start in range(0, count, pool):
            piece = order[start : start + pool]
            # The order inside a pool is already random, so a stable sort breaks ties at random.
            longest_first = np.argsort(-lengths[piece].astype(kind), kind="stable")
            order[start : start + pool] = piece[longest_first]
        self._order = order
        self._batch_size = batch_size
        self._full = count // batch_size
        self._starts = shuffled(self._full, seed, epoch, _BATCHES) * np.int32(batch_size)
        if epoch == 0 and self._full > 1:
            self._longest_first(lengths)

    def _longest_first(self, lengths: NDArray[np.integer]) -> None:
        full = self._order[: self._full * self._batch_size]
        tokens = lengths[full].reshape(self._full, self._batch_size).sum(axis=1, dtype=np.int64)
        place = int(np.argmax(tokens[self._starts // self._batch_size]))
        self._starts[[0, place]] = self._starts[[place, 0]]

    def __len__(self) -> int:
        return (len(self._order) + self._batch_size - 1) // self._batch_size

    def batch(self, index: int) -> Windows:
        """The windows of batch ``index`` of this epoch."""
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} of an epoch of {len(self)}")
        start = self._starts[index] if index < self._full else self._full * self._batch_size
        return self._order[start : start + self._batch_size]

    def __iter__(self) -> Iterator[Windows]:
        return (self.batch(index) for index in range(len(self)))


@dataclass(frozen=True)
class MicroBatch:
    """What one forward and backward sees: these windows, each padded to ``padded_tokens``."""

    windows: Windows
    padded_tokens: int


def cut(
    windows: Windows,
    lengths: NDArray[np.integer],
    shares: int,
    micro_batch_tokens: int,
    round_to: int = ROUND_TO,
) -> list[list[MicroBatch]]:
    """Cut a batch into ``shares`` lists of micro-batches.

    ``lengths`` are those of ``windows``, in the same order. The windows are sorted by length and
    cut into runs so that the share with the most padded tokens has as few as possible: every rank
    waits for the slowest. A share's micro-batches are runs again, as few and as even as
    ``micro_batch_tokens`` padded tokens allow (one window may exceed it). Shares can be empty.
    """
    order = np.lexsort((windows, -lengths.astype(np.int64)))
    windows = windows[order]
    padded = -(-lengths[order].astype(np.int64) // round_to) * round_to
    result = []
    for start, stop in _even_runs(padded, shares):
        own, own_padded = windows[start:stop], padded[start:stop]
        runs = _runs(own_padded, micro_batch_tokens)
        even = _even_runs(own_padded, len(runs))
        # A window that alone exceeds the memory makes room for others that would not fit.
        runs = even if _cost(own_padded, even) <= micro_batch_tokens else runs
        result.append([MicroBatch(own[a:b], int(own_padded[a])) for a, b in runs if b > a])
    return result


def _cost(padded: NDArray[np.int64], runs: list[tuple[int, int]]) -> int:
    return max((int(padded[a]) * (b - a) for a, b in runs if b > a), default=0)


def _runs(padded: NDArray[np.int64], capacity: int) -> list[tuple[int, int]]:
    """Runs of the falling ``padded`` lengths whose count x longest is at most ``capacity``."""
    runs, start = [], 0
    while start < len(padded):
        stop = min(len(padded), start + max(1, capacity // int(padded[start])))
        runs.append((start, stop))
        start = stop
    return runs


def _even_runs(padded: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """At most ``parts`` runs, filled up with empty ones, whose most expensive is the cheapest."""
    if len(padded) == 0:
        return [(0, 0)] * parts
    low, high = int(padded[0]), int(padded[0]) * len(padded)
    while low < high:
        middle = (low + high) // 2
        if len(_runs(padded, middle)) <= parts:
            high = middle
        else:
            low = middle + 1
    runs = _runs(padded, low)
    return runs + [(len(padded), len(padded))] * (parts - len(runs))


def assign(shares: int, ranks: int) -> list[range]:
    """The shares each rank hosts: contiguous, and their numbers differ by one at most."""
    edges = [shares * rank // ranks for rank in range(ranks + 1)]
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def evaluation_batches(
    lengths: NDArray[np.integer], batch_tokens: int, round_to: int = ROUND_TO
) -> list[MicroBatch]:
    """All windows once, longest first, in batches of at most ``batch_tokens`` padded tokens.

    They do not depend on the ranks; rank r of n takes batches r, r + n, r + 2n … whole, so every
    window is computed in the same company, and to the same bits, however many ranks there are.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable").astype(np.int32)
    padded = -(-lengths[order].astype(np.int64) // round_to) * round_to
    return [
        MicroBatch(order[start:stop], int(padded[start]))
        for start, stop in _runs(padded, batch_tokens)
    ]


def padding_waste(
    lengths: NDArray[np.integer],
    shares: int,
    ranks: int,
    plan: EpochPlan,
    micro_batch_tokens: int,
    round_to: int = ROUND_TO,
) -> float:
    """Share of the ranks' token time lost to padding and to waiting for the slowest, in [0, 1).

    1 - real tokens / (ranks x padded tokens of the slowest rank), summed over the epoch's batches.
    """
    hosts = assign(shares, ranks)
    real, spent = 0, 0
    for windows in plan:
        parts = cut(windows, lengths[windows], shares, micro_batch_tokens, round_to)
        cost = [sum(len(m.windows) * m.padded_tokens for m in part) for part in parts]
        real += int(lengths[windows].sum())
        spent += ranks * max(sum(cost[share] for share in host) for host in hosts)
    return 1 - real / spent
