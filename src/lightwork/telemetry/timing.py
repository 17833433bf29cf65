"""Where the time of a step goes, on the host and on the device.

On CPU the parts are host seconds. On CUDA they are seconds between events on the current stream,
read only once the device has passed them: measuring never makes the host wait for the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from lightwork.comm.message import waited_s
from lightwork.comm.phases import enter
from lightwork.telemetry.records import STEP_PARTS

if TYPE_CHECKING:
    import torch

_NO_RANGE = nullcontext()


def _no_range(_name: str) -> AbstractContextManager[object]:
    return _NO_RANGE


class StepClock:
    """Adds up the parts of one step; make a new one for each step.

    ``profiled``: the parts are ranges in the trace of torch's profiler as well.
    """

    def __init__(self, device: torch.device, profiled: bool = False) -> None:
        self._cuda = device.type == "cuda"
        self._range: Callable[[str], AbstractContextManager[object]] = _no_range
        if profiled:
            from torch.profiler import record_function

            self._range = record_function
        self._seconds: dict[str, float] = {}
        self._events: list[tuple[str, Any, Any]] = []
        self.started_s = time.monotonic()
        self._wall_s = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what runs inside under ``name``, the phase that this rank is in from here on.

        What it waits for messages of other ranks meanwhile counts as ``blocked`` instead.
        """
        enter(name)
        if self._cuda:
            import torch

            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            with self._range(name):
                yield
            end.record()
            self._events.append((name, start, end))
        else:
            started_s, waited = time.perf_counter(), waited_s()
            with self._range(name):
                yield
            blocked = waited_s() - waited
            self.add(name, time.perf_counter() - started_s - blocked)
            self.add("blocked", blocked)

    def add(self, name: str, seconds: float) -> None:
        """Count ``seconds`` of host time under ``name``."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    @property
    def on_device(self) -> bool:
        """Whether the parts are seconds of a device, which the host runs ahead of."""
        return self._cuda

    def stop(self) -> None:
        """The step is over: fix its wall time."""
        self._wall_s = time.monotonic() - self.started_s

    def ready(self) -> bool:
        """Whether :meth:`seconds` can be read without waiting for the device."""
        return all(end.query() for _, _, end in self._events)

    def spent(self, *names: str) -> float:
        """Seconds of these parts so far. Waits for the device if it must."""
        self._read_events()
        return sum(self._seconds.get(name, 0.0) for name in names)

    def seconds(self) -> dict[str, float]:
        """Seconds by part, and ``step``: the wall time. Waits for the device if it must."""
        self._read_events()
        return {**self._seconds, "step": self._wall_s}

    def _read_events(self) -> None:
        for name, start, end in self._events:
            end.synchronize()
            self.add(name, start.elapsed_time(end) / 1000)
        self._events = []


def exclusive(seconds: Mapping[str, float], behind_s: float) -> dict[str, float]:
    """The fields of a step record that add up to ``step_s``, and ``duties_s`` beside them.

    ``seconds`` are those of a :class:`StepClock`; ``behind_s``: how much longer the slowest rank
    was at work than this one. So much of the time that this rank stood still it waited for that
    one, and the rest was the messages.
    """
    parts = {name: seconds.get(name, 0.0) for name in STEP_PARTS}
    # A device stands still in the part that waits for the sums; only a host tells waits apart.
    blocked_s = seconds["blocked"] if "blocked" in seconds else parts["sync"]
    parts["sync"] -= 0.0 if "blocked" in seconds else blocked_s
    parts["sync"] += seconds.get("control", 0.0)
    parts["wait"] = min(max(behind_s, 0.0), blocked_s)
    parts["transfer"] = blocked_s - parts["wait"]
    parts["other"] = seconds["step"] - sum(parts.values())
    whole = {**parts, "step": seconds["step"], "duties": seconds.get("duties", 0.0)}
    return {f"{name}_s": value for name, value in whole.items()}
