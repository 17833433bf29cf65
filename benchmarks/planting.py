"""Training with one fault of a known size: ``python -m benchmarks.planting train …``.

Takes the arguments of ``lightwork``. Which fault, on which rank and how large stands as JSON in
the environment variable ``PLANTED``. The faults are put into the ranks around the library's own
functions; the product has no options for them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lightwork.assembly import run_train
from lightwork.cli import launching, main
from lightwork.comm import message
from lightwork.comm.message import Message, Transfer, waited_s
from lightwork.comm.supervisor import Launch, supervise
from lightwork.data import loader
from lightwork.data.loader import Loader, Work
from lightwork.data.plan import EpochPlan, cut
from lightwork.report import live
from lightwork.settings import load_settings
from lightwork.telemetry.timing import StepClock
from lightwork.train.gradients import Gradients

VARIABLE = "PLANTED"
SLOWED = ("copy", "forward", "backward", "optimizer")
"""The parts of a step that a slow card is slow in; messages are the network's."""


def put(place: Any, name: str, wrong: Callable[..., Any]) -> None:
    """Ranks are processes that end with the run, so nothing needs to be put back."""
    assert hasattr(place, name), f"{place} has no {name} any more"
    setattr(place, name, wrong)


def slow_rank(factor: float) -> None:
    """Everything that this rank computes takes ``factor`` times as long as it took."""
    part = StepClock.part

    @contextmanager
    def slow(clock: StepClock, name: str) -> Iterator[None]:
        with part(clock, name):
            began_s, waited = time.perf_counter(), waited_s()
            yield
            took_s = time.perf_counter() - began_s - (waited_s() - waited)
            if name in SLOWED:
                time.sleep((factor - 1) * took_s)

    put(StepClock, "part", slow)


def measured() -> list[float]:
    """A list whose only number is always how long this rank computed in its latest step."""
    compute, latest = Gradients.compute, [0.0]

    def timed(own: Gradients, *given: Any) -> Any:
        began_s, waited = time.perf_counter(), waited_s()
        trial = compute(own, *given)
        latest[0] = time.perf_counter() - began_s - (waited_s() - waited)
        return trial

    put(Gradients, "compute", timed)
    return latest


def slow_loader(times: float) -> None:
    """The thread that reads ahead needs so many times as long for a step as it takes to compute."""
    step, latest = Loader._step, measured()

    def slow(own: Loader, *given: Any) -> Work:
        time.sleep(times * latest[0])
        return step(own, *given)

    put(Loader, "_step", slow)


def slow_link(times: float) -> None:
    """Messages of gradients leave one after the other, and so that those of a step take so many
    times as long as it takes to compute."""
    begin, wait, latest = Message.__init__, Message.wait, measured()
    compute = Gradients.compute
    now_bytes, step_bytes, free_s = [0], [0], [0.0]
    due_s: dict[int, float] = {}

    def computed(own: Gradients, *given: Any) -> Any:
        now_bytes[0] = 0
        trial = compute(own, *given)
        step_bytes[0] = now_bytes[0]
        return trial

    def posted(own: Message, verb: str, sent_bytes: int, post: Callable[[], Any]) -> None:
        begin(own, verb, sent_bytes, post)
        now_bytes[0] += sent_bytes
        if step_bytes[0] and sent_bytes > 1000:  # not the few numbers in which ranks decide
            took_s = times * latest[0] * sent_bytes / step_bytes[0]
            free_s[0] = max(free_s[0], time.monotonic()) + took_s
            due_s[id(own)] = free_s[0]

    def late(own: Message) -> Transfer:
        transfer = wait(own)
        left_s = due_s.pop(id(own), 0.0) - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
            message._WAITED.seconds += left_s
            own._transfer = replace(transfer, finished_s=time.monotonic())
        return own._transfer or transfer

    put(Gradients, "compute", computed)
    put(Message, "__init__", posted)
    put(Message, "wait", late)


def unequal_shares(part: float) -> None:
    """The first of two shares gets so large a part of every batch."""

    def unequal(windows: Any, lengths: NDArray[Any], shares: int, *given: Any) -> list[Any]:
        assert shares == 2
        order = np.random.default_rng(len(windows)).permutation(len(windows))
        edge = round(part * len(windows))
        halves = (order[:edge], order[edge:])
        return [cut(windows[half], lengths[half], 1, *given)[0] for half in halves]

    put(loader, "cut", unequal)


def unsorted_windows() -> None:
    """Batches are formed without a look at how long windows are."""

    def unsorted(seed: int, epoch: int, lengths: NDArray[Any], batch_size: int) -> Any:
        return EpochPlan(seed, epoch, np.ones_like(lengths), batch_size)

    put(loader, "EpochPlan", unsorted)


def garbage_labels(steps: list[int] | None = None) -> None:
    """Answers anywhere, in all steps of this rank or in these."""
    compute, draw = Gradients.compute, np.random.default_rng(5)

    def spoilt(work: Work) -> Work:
        for piece in work.pieces:
            first, last = (piece.tensors[f"context_{end}"].numpy() for end in ("first", "last"))
            for name in ("start", "end"):
                piece.tensors[name] = torch.from_numpy(draw.integers(first, last))
        return work

    def computed(own: Gradients, step: int, work: Any, *given: Any) -> Any:
        wrong = isinstance(work, Work) and (steps is None or step in steps)
        return compute(own, step, spoilt(work) if wrong else work, *given)

    put(Gradients, "compute", computed)


def leak(bytes_a_step: int) -> None:
    """What a step made is kept for ever."""
    compute, kept = Gradients.compute, []

    def keeping(own: Gradients, *given: Any) -> Any:
        kept.append(np.ones(bytes_a_step, np.uint8))
        return compute(own, *given)

    put(Gradients, "compute", keeping)


FAULTS: dict[str, Callable[..., None]] = {
    "slow_rank": slow_rank,
    "slow_loader": slow_loader,
    "slow_link": slow_link,
    "unequal_shares": unequal_shares,
    "unsorted_windows": unsorted_windows,
    "garbage_labels": garbage_labels,
    "leak": leak,
}


def prepare_rank(told: dict[str, Any]) -> None:
    """Pin this rank to its core, and plant what ``told`` says if it is meant.

    ``told``: ``cores``, one for each rank; ``fault``, a name of ``FAULTS``; ``given``, its
    arguments; ``rank``, the only one to have it, or null for all; ``look_every_s``, so that a short
    run hears its verdict too.
    """
    rank = int(os.environ.get("RANK", "0"))
    cores = told.get("cores")
    if cores:
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    if "look_every_s" in told:
        live.EVERY_S, live.COST_S = told["look_every_s"], 1.0
    if told.get("fault") and told.get("rank") in (None, rank):
        FAULTS[told["fault"]](**told.get("given", {}))


def train(settings: str, run: str, told: str, *overrides: str) -> None:
    """Train as this rank, with the fault that the JSON ``told`` says."""
    prepare_rank(json.loads(told))
    run_train(load_settings(Path(settings), list(overrides)), Path(run))


def launch() -> None:
    """``lightwork`` with the arguments of this process, for itself or for ranks that it starts."""
    if "RANK" in os.environ:
        prepare_rank(json.loads(os.environ[VARIABLE]))
        main.run()
        return
    own = (sys.executable, "-m", "benchmarks.planting")

    def start(asked: Launch) -> int:
        return supervise(replace(asked, command=(*own, *asked.command[3:])))

    put(launching, "supervise", start)
    main.run()


if __name__ == "__main__":
    launch()
