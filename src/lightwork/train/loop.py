"""The training loop of one rank: work, step, record, and now and then a duty."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import psutil
import torch

from lightwork.comm.phases import enter
from lightwork.data.loader import Loader, Prefetch, Work
from lightwork.sync.contract import SyncResult
from lightwork.telemetry.profiling import Profile
from lightwork.telemetry.recorder import MetricsFile, StepDisplay
from lightwork.telemetry.records import StepRecord
from lightwork.telemetry.sampling import Sampler
from lightwork.telemetry.sinks import Sinks
from lightwork.telemetry.timing import StepClock, exclusive
from lightwork.train.duties import Duties
from lightwork.train.schedule import Schedule
from lightwork.train.step import Outcome, Stepper


@dataclass(frozen=True)
class Telemetry:
    """Where this rank's records go; ``display`` on rank 0 only."""

    metrics: MetricsFile
    sinks: Sinks
    sampler: Sampler
    profile: Profile
    display: StepDisplay | None
    log_every_steps: int
    rank: int
    attempt: int
    device: torch.device
    memory_total_bytes: int | None = None
    """What there is for tensors on this rank; see :func:`lightwork.train.memory.total_bytes`."""


def train(
    stepper: Stepper,
    loader: Loader,
    schedule: Schedule,
    duties: Duties,
    telemetry: Telemetry,
    first_step: int,
) -> int:
    """Do the updates ``first_step`` … ``schedule.total_steps``, or until the duties say stop.

    Returns the last update that the model holds.
    """
    step = first_step - 1
    if not duties.owed(step):
        return step
    journal = _Journal(telemetry)
    with Prefetch(loader.work(first_step, schedule.total_steps)) as stream:
        works, duties_s = iter(stream), 0.0
        telemetry.profile.turn(first_step)
        for step in range(first_step, schedule.total_steps + 1):
            clock = StepClock(stepper.device, telemetry.profile.runs)
            enter("data", step)
            work = _next(works, clock)
            rate = schedule.learning_rate(step - stepper.skipped_steps)
            measure = step % telemetry.log_every_steps == 0
            outcome = stepper.run(step, work, rate, clock, duties.wishes, measure)
            clock.stop()
            clock.add("duties", duties_s)
            journal.note(clock, record_of(telemetry, outcome, rate, clock.started_s))
            began_s = time.monotonic()
            telemetry.profile.turn(step + 1)
            if not duties.after(step, outcome.agreement.wishes):
                break
            duties_s = time.monotonic() - began_s
    journal.close()
    telemetry.profile.end()
    return step


def _next(works: Iterator[Work], clock: StepClock) -> Work | Exception:
    """The next work, or why there is none: a failure is the whole batch's, not this rank's."""
    started_s = time.perf_counter()
    try:
        return next(works)
    except Exception as error:  # noqa: BLE001 - goes into the Control message of the step
        return error
    finally:
        clock.add("data", time.perf_counter() - started_s)


def record_of(
    telemetry: Telemetry, outcome: Outcome, rate: float, started_s: float
) -> Callable[[dict[str, float]], StepRecord]:
    """The record of the step begun at ``started_s``, but for what a device tells of it later."""
    held = host_memory()
    now: dict[str, Any] = {
        "rank": telemetry.rank,
        "attempt": telemetry.attempt,
        "time_unix_s": time.time(),
        "learning_rate": rate,
        "memory_bytes": memory_bytes(telemetry.device, held),
        "memory_total_bytes": telemetry.memory_total_bytes,
        "private_bytes": private_bytes(held),
        "sample": telemetry.sampler.sample(),
        "profiled": telemetry.profile.disturbs,
        **_learned(outcome),
        **_exchanged(outcome.sync, started_s),
    }
    agreement = outcome.agreement
    slowest, own_s = agreement.slowest, agreement.reports[telemetry.rank].busy_s
    slowest_s = agreement.reports[slowest].busy_s
    pace: dict[str, Any] = {"busy_s": own_s, "slowest_rank": slowest, "slowest_busy_s": slowest_s}
    return lambda seconds: StepRecord(**now | pace | exclusive(seconds, slowest_s - own_s))


def _learned(outcome: Outcome) -> dict[str, Any]:
    work = outcome.work
    return {
        "step": work.step,
        "epoch": work.position.epoch,
        "loss": outcome.loss,
        "rank_loss": outcome.rank_loss,
        "grad_norm": outcome.grad_norm,
        "loss_scale": outcome.loss_scale,
        "applied": outcome.applied,
        "windows": len(work.windows),
        "micro_batches": len(work.pieces),
        "batch_windows": work.batch_windows,
        "real_tokens": work.real_tokens,
        "padded_tokens": work.padded_tokens,
        "worst_loss": outcome.worst_loss,
        "worst_windows": outcome.far_windows,
    }


def _exchanged(sync: SyncResult, started_s: float) -> dict[str, Any]:
    return {
        "rank_grad_norm": sync.own_norm,
        "hidden_sync_s": sync.hidden_s,
        "sent_bytes": sync.sent_bytes,
        "transfer_bytes_per_s": sync.sent_bytes / sync.under_way_s if sync.under_way_s else None,
        "bucket_ready_s": [round(ready_s - started_s, 6) for ready_s in sync.ready_s],
    }


class _Journal:
    """Writes records in order, each as soon as the device has told its seconds."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._open: deque[tuple[StepClock, Callable[[dict[str, float]], StepRecord]]] = deque()

    def note(self, clock: StepClock, complete: Callable[[dict[str, float]], StepRecord]) -> None:
        self._open.append((clock, complete))
        while self._open and self._open[0][0].ready():
            self._write()

    def close(self) -> None:
        while self._open:
            self._write()

    def _write(self) -> None:
        clock, complete = self._open.popleft()
        record = complete(clock.seconds())
        self._telemetry.metrics.write(record)
        self._telemetry.sinks.write(record)
        if self._telemetry.display is not None:
            self._telemetry.display.show(record)


@cache
def _this_process(pid: int) -> psutil.Process:
    return psutil.Process(pid)


def host_memory() -> Any:
    """What the system says of this process: ``psutil.Process.memory_info``."""
    return _this_process(os.getpid()).memory_info()


def memory_bytes(device: torch.device, held: Any) -> int:
    """CPU: resident memory of this process. CUDA: the most the device held for tensors so far."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else int(held.rss)


def private_bytes(held: Any) -> int | None:
    """Of the host's memory, what this process holds and no file stands behind.

    Mapped files fill memory as they are read and give it back when it is wanted. None where the
    system does not tell the two apart.
    """
    return int(held.rss) - int(held.shared) if hasattr(held, "shared") else None
