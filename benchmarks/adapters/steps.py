"""When each step of a peer ended: one JSON object a line, as lightwork's own metrics have it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import torch

from benchmarks.adapters.spec import STEPS, Spec


class StepLog:
    """Written by rank 0; on other ranks nothing happens.

    A GPU works behind: a step has been asked for, not done, when its time is noted. So the GPU is
    waited for after the first step and at both ends of what is measured, and nowhere else. Of a
    single step in between the time says little, of all of them together it is exact.
    """

    def __init__(self, spec: Spec, rank: int) -> None:
        self._file = (Path(spec.out) / STEPS).open("a", buffering=1) if rank == 0 else None
        self._cuda = spec.device == "cuda"
        self._exact_steps = {1, spec.warmup_steps, spec.steps}

    def __enter__(self) -> StepLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._cuda and error is None:
            self.facts(device_memory_bytes=torch.cuda.max_memory_allocated())
        if self._file is not None:
            self._file.close()

    def end(self, step: int) -> None:
        """Update ``step`` (from 1) is done."""
        if self._cuda and step in self._exact_steps:
            torch.cuda.synchronize()
        self._write({"step": step, "time_unix_s": time.time()})

    def loss(self, step: int, loss: float) -> None:
        """The loss over all ranks, told after ``end(step)``."""
        self._write({"step": step, "loss": loss})

    def facts(self, **facts: int) -> None:
        """What the run says of itself, before its first step."""
        self._write(facts)

    def _write(self, line: Mapping[str, float]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")


def end_program() -> None:
    """The last line of a peer's program.

    The destructors of DistributedDataParallel and gloo, which would run now, abort a process now
    and then, or wait for each other for ever; everything has been written, so they are left out.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
