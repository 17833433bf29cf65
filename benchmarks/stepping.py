"""One rank of ``benchmarks.steps``: all contenders side by side, their steps in alternation.

``python -m benchmarks.stepping REQUEST``, started once for each rank. Every contender has a model
of its own and takes its work from a Loader of its own, so all learn from the same windows in the
same round. lightwork's contenders are what ``lightwork train`` is made of (``make_ready``).
"""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from benchmarks.one_rank import as_one_rank
from lightwork.assembly.ready import Ready, Start, make_ready
from lightwork.assembly.training import started
from lightwork.cli.failures import failures_named
from lightwork.comm.group import Group
from lightwork.comm.message import Finished, Pending
from lightwork.data.loader import Work
from lightwork.errors import LightworkError
from lightwork.settings import load_settings
from lightwork.settings.learning import TrainSettings
from lightwork.telemetry.timing import StepClock

CONTENDERS = {
    "none": ("sync.strategy=ddp",),
    "plain-ddp": ("sync.strategy=ddp",),
    "ddp": ("sync.strategy=ddp",),
    "all_reduce": ("sync.strategy=all_reduce",),
    "all_reduce-whole": ("sync.strategy=all_reduce", "sync.rows=off"),
    "all_reduce-8": ("sync.strategy=all_reduce", "train.shares=8"),
    "ring": ("sync.strategy=ring",),
    "tree": ("sync.strategy=tree",),
    "tree-8": ("sync.strategy=tree", "train.shares=8"),
}
"""Name -> settings. A batch has as many shares as there are ranks, where it is not said."""

SHOWN_EVERY = 10
"""Rounds between two lines of progress."""
_WITHOUT_END = 1 << 40


@dataclass(frozen=True)
class Request:
    """What the ranks are to measure."""

    settings: str
    overrides: list[str]
    run: str
    contenders: list[str]
    batch: int
    """Windows behind one update, over all ranks."""
    warmup: int
    pairs: int
    seed: int
    out: str
    """Rank 0 writes here: contender -> seconds of each round, of the slowest rank."""


@dataclass(frozen=True)
class Lane:
    """One contender, standing where its next step begins."""

    module: nn.Module
    works: Iterator[Work]
    step: Callable[[Work], None]


class Apart(Group):
    """A rank's place in a group from which nothing more is sent after :meth:`leave`.

    On it, lightwork's own step with ``sync.strategy: ddp``, which without a process group has
    nothing to wrap, is forward, backward, clipping and update of this rank's half and no more: what
    n ranks could do if messages took no time at all.
    """

    def __init__(self, group: Group) -> None:
        super().__init__(None, None, 0.0, "cpu")
        self.rank, self.size = group.rank, group.size
        self._meeting: Group | None = group

    def leave(self) -> None:
        """From now on this rank only hears itself."""
        self._meeting = None

    def broadcast(self, tensor: Tensor, source: int = 0) -> Pending:
        """While everything is built, of the whole group."""
        return self._meeting.broadcast(tensor, source) if self._meeting else Finished()

    def gather_json(self, value: Any) -> list[Any]:
        """What all say, later this rank alone in the place of all."""
        return self._meeting.gather_json(value) if self._meeting else [value] * self.size

    def all_gather(self, output: Tensor, tensor: Tensor) -> Pending:
        """As :meth:`gather_json`."""
        if self._meeting:
            return self._meeting.all_gather(output, tensor)
        output.copy_(tensor.expand_as(output))
        return Finished()


def make_lane(start: Start, name: str) -> Lane:
    """The contender ``name`` on this rank; called on every rank."""
    if name not in ("none", "plain-ddp"):
        return _lightwork(make_ready(start))
    apart = Apart(start.group)
    ready = make_ready(replace(start, group=apart))
    apart.leave()
    return _lightwork(ready) if name == "none" else _plain_ddp(start, ready)


def _lightwork(ready: Ready) -> Lane:
    """Steps as the training loop does them, between having the work and noting the record."""

    def step(work: Work) -> None:
        rate = ready.schedule.learning_rate(work.step)
        clock = StepClock(ready.stepper.device)
        ready.stepper.run(work.step, work, rate, clock)
        clock.stop()

    return Lane(ready.model.module, ready.loader.work(1, _WITHOUT_END), step)


def _plain_ddp(start: Start, parts: Ready) -> Lane:
    """The loop that a person writes around PyTorch's DistributedDataParallel, and writes well.

    Of ``parts`` it takes the model, the windows and the loss; gradients become views of the
    buckets, buffers, which no step changes, are not sent, messages travel in the last micro-batch
    only, and the optimizer is fused.
    """
    model, train = parts.model, start.settings.train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of another name for broadcast_buffers
        wrapped = DistributedDataParallel(
            model.module,
            process_group=start.group.process_group,
            gradient_as_bucket_view=True,
            broadcast_buffers=False,
        )
    parameters = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = _adamw(parameters, train)

    def step(work: Work) -> None:
        scale = start.group.size / work.batch_weight  # it divides by the ranks
        for number, piece in enumerate(work.pieces, 1):
            torch.manual_seed(piece.seed)  # all drop out the same
            with nullcontext() if number == len(work.pieces) else wrapped.no_sync():
                batch = model.on_device(piece.tensors)
                loss = model.task.loss(model.task.forward(wrapped, batch), batch)
                (loss * scale).backward()
        if train.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(parameters, train.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()

    return Lane(model.module, parts.loader.work(1, _WITHOUT_END), step)


def _adamw(parameters: Sequence[nn.Parameter], train: TrainSettings) -> AdamW:
    """Fused; biases and norms do not decay."""
    return AdamW(
        [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": train.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=train.learning_rate,
        betas=(train.adam_beta1, train.adam_beta2),
        eps=train.adam_epsilon,
        fused=True,
    )


def make_lanes(start: Start, request: Request) -> list[Lane]:
    """All contenders, in the order of the request."""
    lanes = []
    for name in request.contenders:
        overrides = [*request.overrides, f"train.batch_size={request.batch}", *CONTENDERS[name]]
        settings = load_settings(Path(request.settings), overrides)
        shares = settings.train.shares
        shares = start.group.size if shares == "auto" else shares
        record = replace(start.record, shares=shares)
        lanes.append(make_lane(replace(start, settings=settings, record=record), name))
    return lanes


def measure(group: Group, lanes: Sequence[Lane], request: Request) -> Tensor:
    """Seconds of every step, ``[pairs, contenders]``, each of the slowest rank.

    All ranks begin a step together. In each round every contender does one, in a random order that
    all ranks draw alike.
    """
    seconds = torch.zeros(request.pairs, len(lanes), dtype=torch.float64)
    for number in range(-request.warmup, request.pairs):
        if group.rank == 0 and number % SHOWN_EVERY == 0:
            print(f"round {number} of {request.pairs}", file=sys.stderr, flush=True)
        places = list(range(len(lanes)))
        random.Random(f"{request.seed}/{number}").shuffle(places)
        for place in places:
            lane = lanes[place]
            work = next(lane.works)
            group.all_reduce(torch.zeros(1)).wait()
            started_s = time.perf_counter()
            lane.step(work)
            if number >= 0:
                seconds[number, place] = time.perf_counter() - started_s
    group.all_reduce(seconds, "max").wait()
    return seconds


def run(request: Request) -> None:
    """Measure; called on every rank."""
    settings = load_settings(Path(request.settings), request.overrides)
    folder = Path(request.run)
    with failures_named(folder / "logs"), started(settings, folder) as start:
        if start.world.device != "cpu":
            raise LightworkError("steps are timed on the host: launch.device must be cpu")
        columns = measure(start.group, make_lanes(start, request), request).t().tolist()
        if start.group.rank == 0:
            found = dict(zip(request.contenders, columns, strict=True))
            Path(request.out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    as_one_rank(Request, run)
