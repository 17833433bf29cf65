"""Rounds of one way to exchange gradients: a batch with its exchange, without, and that alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from lightwork.assembly.rows import table_of
from lightwork.assembly.streaming import meet, synchronise
from lightwork.comm.group import Group
from lightwork.data.loader import Loader, Work
from lightwork.report.exchange import Way
from lightwork.settings.running import SyncSettings
from lightwork.sync.contract import GradientSync
from lightwork.sync.rows import pays
from lightwork.telemetry.timing import StepClock
from lightwork.train.gradients import Progress, forward_backward
from lightwork.train.model import Model

LEAST_ROUNDS, MOST_ROUNDS = 3, 40


class Rounds:
    """One way under its own copy of the model."""

    def __init__(self, group: Group, model: Model, sync: GradientSync, loader: Loader) -> None:
        self._group = group
        self._model = model
        self._sync = sync
        self._loader = loader
        self._sent: list[int] = []
        self._rounds: list[list[float]] = []
        """Of every round: step with exchange, for how long of it this rank stood still, exchange
        alone, and step without exchange."""

    def settle(self, work: Work) -> None:
        """A step in which ranks agree on what takes part."""
        self._step(work, send=True)
        if any(self._group.gather_json(self._sync.unsettled())):
            self._sync.settle(self._group)

    def rounds(self, works: Sequence[Work], seconds: float) -> None:
        """For about so long, as rank 0 has it."""
        started_s = time.monotonic()
        for number in range(MOST_ROUNDS):
            work = works[number % len(works)]
            whole_s, still_s = self._step(work, send=True)
            silent_s, _ = self._step(work, send=False)
            self._rounds.append([whole_s, still_s, self._alone(work), silent_s])
            enough = time.monotonic() - started_s >= seconds and number + 1 >= LEAST_ROUNDS
            ends = torch.tensor(int(enough))
            self._group.broadcast(ends).wait()
            if ends:
                break

    def way(self, settings: SyncSettings, works: Sequence[Work]) -> tuple[Way, list[float]]:
        """What came of it, and the seconds of computing; the same on every rank."""
        slowest = torch.tensor(self._rounds, dtype=torch.float64)
        least = slowest.clone()
        self._group.all_reduce(slowest, "max").wait()
        self._group.all_reduce(least, "min").wait()
        whole, _, alone, silent = slowest.t().tolist()
        auto = all(self._pays(work) for work in works)
        rows = self._sync.wants_rows and (
            settings.rows == "on" or (settings.rows == "auto" and auto)
        )
        done = [works[number % len(works)] for number in range(len(self._rounds))]
        summed_bytes = sum(self._summed_bytes(work, rows) for work in done) / len(done)
        factor = 2 * (self._group.size - 1) / self._group.size
        sent = max(self._group.gather_json(sum(self._sent) / max(1, len(self._sent))))
        by_backend = settings.strategy in ("all_reduce", "ddp")
        way = Way(
            strategy=settings.strategy,
            rows=rows,
            asked="auto" if rows == auto else "on" if rows else "off",
            bucket_bytes=settings.bucket_bytes,
            summed_bytes=summed_bytes,
            # Gloo and NCCL do not tell; by ring or halving each rank sends so much.
            sent_bytes=factor * summed_bytes if by_backend else sent,
            whole_s=whole,
            exposed_s=least[:, 1].tolist() if self._sent else [],
            transfer_s=alone if self._sent else [],
        )
        return way, silent

    def _step(self, work: Work, send: bool) -> tuple[float, float]:
        """Seconds of forward and backward, of the exchange that goes with it if ``send``, and for
        how many of them this rank stood still for messages."""
        sync, pieces, device = self._sync, work.pieces, self._model.device
        scale = sync.scale / work.batch_weight
        if not pieces and sync.needs_backward:
            pieces, scale = [self._loader.filler()], 0.0
        if send:
            sync.begin(measure=False, rows=work.rows)
        clock = StepClock(device)
        with self._timed() as seconds:
            watched = sync if send else cast(GradientSync, Silent(sync))
            forward_backward(self._model, pieces, watched, scale, Progress(), clock)
            if send:
                with clock.part("sync"):
                    sync.finish()
        # A device stands still in the part that waits for the sums.
        return seconds[0], clock.spent("sync" if clock.on_device else "blocked")

    def _alone(self, work: Work) -> float:
        """Seconds of an exchange that nothing hides: all of it is ready at once."""
        if not self._sync.can_discard:
            return 0.0  # it sends in backward only
        self._sync.begin(measure=False, rows=work.rows)
        with self._timed() as seconds:
            self._sent.append(self._sync.finish().sent_bytes)
        return seconds[0]

    @contextmanager
    def _timed(self) -> Iterator[list[float]]:
        """From when all ranks have met to when this one's device is through."""
        seconds: list[float] = []
        meet(self._group, self._model.device)
        started_s = time.perf_counter()
        yield seconds
        synchronise(self._model.device)
        seconds.append(time.perf_counter() - started_s)

    def _summed_bytes(self, work: Work, rows: bool) -> int:
        """Of the gradient of ``work``; what takes no part has none."""
        named = self._model.module.named_parameters()
        sizes = {name: p.nbytes for name, p in named if p.grad is not None}
        table = table_of(self._model.module)
        if rows and table in sizes and work.rows is not None:
            sizes[table] = len(work.rows) * self._model.module.get_parameter(table)[0].nbytes
        return sum(sizes.values())

    def _pays(self, work: Work) -> bool:
        """Whether ``sync.rows: auto`` sends the rows of ``work`` alone."""
        table = table_of(self._model.module)
        if table is None or work.rows is None:
            return False
        return pays(len(work.rows), self._model.module.get_parameter(table))


class Silent:
    """Of a GradientSync what forward and backward ask for, with nothing final, so nothing sent."""

    def __init__(self, sync: GradientSync) -> None:
        self._sync = sync

    def micro_batch(self, share: int, last: bool) -> Any:  # noqa: ARG002 - there is always more
        """As if another micro-batch followed."""
        return self._sync.micro_batch(share, last=False)
