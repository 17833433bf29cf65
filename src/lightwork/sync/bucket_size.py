"""How large a bucket should be on the machines at hand.

Small buckets leave less to send when backward has ended, and each costs something by itself. With a
message that costs ``a`` seconds and ``b`` for every byte, the usual model of such costs (Thakur,
Rabenseifner and Gropp: "Optimization of Collective Communication Operations in MPICH", 2005), D
bytes of gradients in buckets of s take a * D / s + b * D in all, and the last one, which nothing
hides, a + b * s. Their sum is least at s = sqrt(a * D / b).
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lightwork.comm.group import Group
    from lightwork.sync.contract import Strategy

SMALL_BYTES, LARGE_BYTES = 64 * 2**10, 2 * 2**20
"""Two sizes tell the two costs apart."""
ROUNDS = 7
LEAST, MOST = 256 * 2**10, 64 * 2**20
"""Of a bucket: below, Python's own time counts; above, hardly anything is left to overlap."""


@dataclass(frozen=True)
class Cost:
    """Of summing a bucket over the ranks."""

    message_s: float
    byte_s: float


def measured(group: Group, strategy: Strategy, device: torch.device) -> Cost:
    """What ``strategy`` costs, the same number on all ranks: that of the slowest."""
    seconds: dict[int, list[float]] = {SMALL_BYTES: [], LARGE_BYTES: []}
    flats = {size: torch.zeros(size // 4, device=device) for size in seconds}
    for _ in range(1 + ROUNDS):  # the first one opens connections
        for size, flat in flats.items():
            seconds[size].append(_once(group, strategy, flat))
    typical = torch.tensor([statistics.median(taken[1:]) for taken in seconds.values()]).double()
    group.all_reduce(typical, "max").wait()
    small_s, large_s = typical.tolist()
    byte_s = max((large_s - small_s) / (LARGE_BYTES - SMALL_BYTES), 1e-12)
    return Cost(max(small_s - byte_s * SMALL_BYTES, 1e-6), byte_s)


def _once(group: Group, strategy: Strategy, flat: torch.Tensor) -> float:
    """Seconds from when all ranks are there to when the sum is."""
    sums = strategy.open(flat)
    sums.begin()
    group.all_reduce(torch.zeros(1)).wait()
    started_s = time.monotonic()
    sums.start().wait()
    if flat.is_cuda:
        torch.cuda.synchronize(flat.device)
    return time.monotonic() - started_s


def best_bucket_bytes(cost: Cost, gradient_bytes: int) -> int:
    """The power of two next to the best size."""
    best = math.sqrt(max(gradient_bytes, 1) * cost.message_s / cost.byte_s)
    return min(max(1 << round(math.log2(max(best, 1.0))), LEAST), MOST)
