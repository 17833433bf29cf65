"""What helps to explain a slow rank and is not measured at every step: its processor and card."""

from __future__ import annotations

import resource
import time
from typing import NamedTuple

import psutil

from lightwork.telemetry.cards import Card
from lightwork.telemetry.records import NOT_SAMPLED, Sample

EVERY_S = 1.0
"""Seconds between two samples, at least; NVML itself measures over up to a second."""


class _Usage(NamedTuple):
    """What all threads of this process have had of the processors so far."""

    at_s: float
    cpu_s: float
    preemptions: int


class Sampler:
    """Looks at this process, its machine and, if it has one, its ``card``; by the clock."""

    def __init__(self, card: Card | None, every_s: float = EVERY_S) -> None:
        self._card, self._every_s = card, every_s
        self._last = _usage()
        _machine_percent()  # the first sample counts from here

    def sample(self) -> Sample:
        """A sample, or one that says nothing where the last is too fresh."""
        if time.monotonic() - self._last.at_s < self._every_s:
            return NOT_SAMPLED
        last, now = self._last, _usage()
        self._last = now
        passed_s = max(now.at_s - last.at_s, 1e-9)
        return Sample(
            cpu_percent=round(100 * (now.cpu_s - last.cpu_s) / passed_s, 1),
            machine_cpu_percent=_machine_percent(),
            preemptions_per_s=round((now.preemptions - last.preemptions) / passed_s, 1),
            **(self._card.read() if self._card is not None else {}),
        )


def _usage() -> _Usage:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return _Usage(time.monotonic(), used.ru_utime + used.ru_stime, used.ru_nivcsw)


def _machine_percent() -> float | None:
    """How busy all processors were since this was asked last."""
    try:
        return psutil.cpu_percent(interval=None)
    except OSError:  # a machine that hides /proc/stat
        return None
