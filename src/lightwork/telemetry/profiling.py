"""A trace of a few steps: every operation of this rank and its card, by torch's profiler."""

from __future__ import annotations

import gzip
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from lightwork.comm.phases import enter
from lightwork.disk import replacing, scratch_folder

log = logging.getLogger("lightwork")

_SILENT = "6"
"""What the library below torch's profiler has to say would go to the terminal."""


class Profile:
    """``profile/rank<N>.json.gz``: a trace that Perfetto and ``chrome://tracing`` read.

    ``wanted``: the steps, in one piece; empty for none. ``ahead``: those that this start has before
    it. A trace that an earlier start wrote stays until there is a new one.
    """

    def __init__(self, wanted: range, folder: Path, rank: int, ahead: range) -> None:
        self._wanted = wanted
        self._steps = range(max(wanted.start, ahead.start), min(wanted.stop, ahead.stop))
        self._path = folder / f"rank{rank}.json.gz"
        self._profiler: Any = None
        self._range: Any = None
        self._wrote = False
        self._next = ahead.start
        if wanted and ahead and not self._steps:
            log.info(
                "%s profiled (telemetry.profile_steps): this start does steps %d to %d",
                _named(wanted, "is not", "are not"),
                ahead.start,
                ahead.stop - 1,
            )

    @property
    def runs(self) -> bool:
        """Whether the profiler is looking."""
        return self._profiler is not None

    @property
    def disturbs(self) -> bool:
        """Whether the step at hand is slower for it: it looks, or has just written its trace."""
        return self.runs or self._wrote

    def turn(self, step: int) -> None:
        """``step`` is the next, and all before it is done: begin, go on, or write the trace."""
        self._next, self._wrote = step, False
        if step in self._steps:
            self._begin(step)
        elif self._profiler is not None:
            self._write(self._steps)

    def end(self) -> None:
        """No step follows: write the trace of those that were done, or say that there are none."""
        done = range(self._steps.start, min(self._next, self._steps.stop))
        if self._profiler is not None and done:
            self._write(done)
        elif self._steps and not done:
            text = _named(self._wanted, "was not", "were not")
            log.info("%s profiled (telemetry.profile_steps): training ended before", text)
            self._stopped()

    def _begin(self, step: int) -> None:
        from torch.profiler import profile, record_function

        if self._profiler is None:
            os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)
            profiler = profile(acc_events=True)
            try:
                profiler.start()
            except RuntimeError as error:
                log.warning("nothing is profiled, and training goes on: %s", error)
                self._steps = range(0)
                return
            self._profiler = profiler
        else:
            self._range.__exit__(None, None, None)
        self._range = record_function(f"step {step}")
        self._range.__enter__()

    def _stopped(self) -> Any:
        """The profiler, which looks no more; None where it never did."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            self._range.__exit__(None, None, None)
            profiler.stop()
        return profiler

    def _write(self, steps: range) -> None:
        enter("profile")
        profiler, self._wrote = self._stopped(), True
        try:
            with scratch_folder("profile") as scratch, replacing(self._path) as part:
                raw = scratch / "trace.json"
                profiler.export_chrome_trace(str(raw))
                with raw.open("rb") as trace, gzip.open(part, "wb") as packed:
                    shutil.copyfileobj(trace, packed)
        except (OSError, RuntimeError) as error:
            log.warning("%s cannot be written, and training goes on: %s", self._path, error)
            return
        log.info(
            "%s profiled: %s and one of each other rank; open it at https://ui.perfetto.dev or in "
            "chrome://tracing",
            _named(steps, "was", "were"),
            self._path,
        )


def _named(steps: range, one: str, many: str) -> str:
    if len(steps) == 1:
        return f"step {steps.start} {one}"
    return f"steps {steps.start} to {steps.stop - 1} {many}"
