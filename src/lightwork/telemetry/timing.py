"""Where the time of a step goes, on the host and on the device.

On CPU the parts are host seconds. On CUDA they are seconds between events on the current stream,
read only once the device has passed them: measuring never makes the host wait for the device.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lightwork.comm.phases import enter

if TYPE_CHECKING:
    import torch


class StepClock:
    """Adds up the parts of one step; make a new one for each step."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seconds: dict[str, float] = {}
        self._events: list[tuple[str, Any, Any]] = []
        self._started_s = time.perf_counter()
        self._wall_s = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what runs inside under ``name``, the phase that this rank is in from here on."""
        enter(name)
        if self._cuda:
            import torch

            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            yield
            end.record()
            self._events.append((name, start, end))
        else:
            started_s = time.perf_counter()
            yield
            self.add(name, time.perf_counter() - started_s)

    def add(self, name: str, seconds: float) -> None:
        """Count ``seconds`` of host time under ``name``."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def stop(self) -> None:
        """The step is over: fix its wall time."""
        self._wall_s = time.perf_counter() - self._started_s

    def ready(self) -> bool:
        """Whether :meth:`seconds` can be read without waiting for the device."""
        return all(end.query() for _, _, end in self._events)

    def seconds(self) -> dict[str, float]:
        """Seconds by part, and ``step``: the wall time. Waits for the device if it must."""
        for name, start, end in self._events:
            end.synchronize()
            self.add(name, start.elapsed_time(end) / 1000)
        self._events = []
        return {**self._seconds, "step": self._wall_s}
