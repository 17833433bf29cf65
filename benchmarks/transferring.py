"""One rank of the transfers of ``benchmarks.slow_network``: gradients that nothing has computed.

``python -m benchmarks.transferring REQUEST``, started once for each rank. Every strategy has a flat
gradient of its own, cut in buckets as in training, and all of it is there at once: what is timed
runs from the moment when all ranks have met to the one in which the last of them has every sum.
Strategies take turns.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from benchmarks.one_rank import as_one_rank
from lightwork.assembly.strategies import Chosen, gradient_sync, strategy_of
from lightwork.comm.group import Group
from lightwork.comm.world import bind_device, open_group, read_world
from lightwork.errors import LightworkError
from lightwork.settings.running import SyncSettings
from lightwork.sync.contract import GradientSync

PARAMETER_BYTES = 1 << 20
TIMEOUT_S = 300.0
WARMUP = 1


@dataclass(frozen=True)
class Request:
    """What the ranks are to measure."""

    strategies: list[str]
    bytes: int
    """Of one gradient."""
    repeats: int
    out: str
    """Rank 0 writes here: strategy -> ``seconds``, ``sent_bytes``."""
    bucket_bytes: int | None = None
    """None: as training has it."""


class Flat(nn.Module):
    """Parameters of ``count`` bytes altogether, float32."""

    def __init__(self, count: int) -> None:
        super().__init__()
        sizes = [PARAMETER_BYTES] * (count // PARAMETER_BYTES) + [count % PARAMETER_BYTES]
        self.pieces = nn.ParameterList(torch.zeros(size // 4) for size in sizes if size >= 4)


class Contender:
    """One strategy with its gradient."""

    def __init__(self, group: Group, sync: GradientSync, count: int) -> None:
        self._group = group
        self._sync = sync
        self._module = Flat(count)
        sync.attach(self._module)
        self.seconds: list[float] = []
        self.sent_bytes = 0

    def exchange(self) -> float:
        """Sum ones of rank 0, twos of rank 1 …, and look whether that is what came out."""
        self._sync.begin(measure=False)
        gradients = [piece.grad for piece in self._module.parameters() if piece.grad is not None]
        for gradient in gradients:
            gradient.fill_(self._group.rank + 1)
        self._group.all_reduce(torch.zeros(1)).wait()
        started_s = time.perf_counter()
        self.sent_bytes = self._sync.finish().sent_bytes
        seconds = time.perf_counter() - started_s
        size = self._group.size
        expected = size * (size + 1) / 2
        if not gradients or any(bool((gradient != expected).any()) for gradient in gradients):
            raise LightworkError(f"{self._sync.name} gave another sum than {expected:g}")
        return seconds


def measure(group: Group, request: Request) -> dict[str, dict[str, list[float]]]:
    """Called on every rank; seconds are those of the slowest."""
    contenders = {}
    for name in request.strategies:
        bucket = {} if request.bucket_bytes is None else {"bucket_bytes": request.bucket_bytes}
        settings = SyncSettings.model_validate({"strategy": name, **bucket})
        strategy = strategy_of(name, group, group.size)
        use = Chosen(name, group.size, int(settings.bucket_bytes))
        sync = gradient_sync(use, group, strategy, (), overlap=True)
        contenders[name] = Contender(group, sync, request.bytes)
    for number in range(-WARMUP, request.repeats):
        for contender in contenders.values():
            seconds = contender.exchange()
            if number >= 0:
                contender.seconds.append(seconds)
    found = {}
    for name, contender in contenders.items():
        slowest = torch.tensor(contender.seconds, dtype=torch.float64)
        group.all_reduce(slowest, "max").wait()
        sent = [float(sent_bytes) for sent_bytes in group.gather_json(contender.sent_bytes)]
        found[name] = {"seconds": slowest.tolist(), "sent_bytes": sent}
    return found


def run(request: Request) -> None:
    """One rank."""
    world = read_world(os.environ, visible_gpus=0)
    bind_device(world, threads=1)
    with open_group(world, TIMEOUT_S) as group:
        found = measure(group, request)
        if group.rank == 0:
            Path(request.out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    as_one_rank(Request, run)
