"""How fast the line between neighbours is: the yardstick of every exchange over it."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import Tensor

from lightwork.comm.group import Group
from lightwork.report.exchange import Link

PROBE_BYTES = 256 << 10
LASTS_S = 0.4
"""A stream is as long as the line carries in so many seconds, or as the gradient."""
REPEATS = 3
PINGS = 10


def measure_link(group: Group, device: str, most_bytes: int) -> Link:
    """One stream after the other from each rank to the next; called on every rank, the same for
    all. On CUDA something must have travelled among all ranks before."""
    rates, delays = [], []
    for rank in range(group.size):
        pair = _Pair(group, rank, torch.device(device))
        pair.there(pair.room(PROBE_BYTES))  # connect, and find the pace
        delays.append(min(pair.there(pair.room(4)) for _ in range(PINGS)) / 2)
        probe_s = pair.there(pair.room(PROBE_BYTES))
        count = int(min(max(PROBE_BYTES / probe_s * LASTS_S, PROBE_BYTES), most_bytes))
        tensor = pair.room(count)
        rates.append(tensor.nbytes / median(pair.there(tensor) for _ in range(REPEATS)))
    return Link(rates, max(delays))


class _Pair:
    """Rank ``sender`` and the one after it; the other ranks only look on."""

    def __init__(self, group: Group, sender: int, device: torch.device) -> None:
        self._group = group
        self._sender, self._receiver = sender, (sender + 1) % group.size
        self._device = device
        self._told = torch.empty(1, device=device)

    def room(self, count: int) -> Tensor:
        """A tensor of ``count`` bytes or a few less."""
        return torch.empty(max(1, count // 4), device=self._device)

    def there(self, tensor: Tensor) -> float:
        """Seconds until the receiver has said that it has it: the same on every rank."""
        meet(self._group, self._device)
        started_s = time.perf_counter()
        self._exchange(self._sender, self._receiver, tensor)
        self._exchange(self._receiver, self._sender, self._told)
        synchronise(self._device)
        seconds = torch.tensor(time.perf_counter() - started_s, dtype=torch.float64)
        self._group.broadcast(seconds, self._sender).wait()
        return float(seconds)

    def _exchange(self, sender: int, receiver: int, tensor: Tensor) -> None:
        own = self._group.rank
        sends = [(receiver, tensor)] if own == sender else []
        receives = [(sender, tensor)] if own == receiver else []
        self._group.exchange(sends, receives).wait()


def meet(group: Group, device: torch.device) -> None:
    """All ranks are here, and their devices have nothing left to do."""
    synchronise(device)
    group.all_reduce(torch.zeros(1)).wait()


def synchronise(device: torch.device) -> None:
    """Wait for what was queued on ``device``."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
