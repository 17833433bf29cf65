"""One rank of the training of ``benchmarks.slow_network``: contenders in turn, with their records.

``python -m benchmarks.link_steps REQUEST``, started once for each rank, two of them. As in
``benchmarks.stepping`` every contender has a model of its own and the same windows in the same
round; of lightwork's it also notes what a step's record says of its messages.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.one_rank import as_one_rank
from benchmarks.stepping import make_lane
from lightwork.assembly.ready import Ready, Start, make_ready
from lightwork.assembly.training import started
from lightwork.cli.failures import failures_named
from lightwork.comm.group import Group
from lightwork.settings import load_settings
from lightwork.sync.buckets import Bucket, GradientBuckets
from lightwork.sync.rows import TableSums
from lightwork.telemetry.timing import StepClock
from lightwork.train.step import Outcome

PEER = "plain-ddp"
CONTENDERS = {
    PEER: ("sync.strategy=ddp",),
    "all_reduce": ("sync.strategy=all_reduce",),
    "all_reduce-whole": ("sync.strategy=all_reduce", "sync.rows=off"),
    "ring": ("sync.strategy=ring",),
    "ring-whole": ("sync.strategy=ring", "sync.rows=off"),
    "tree": ("sync.strategy=tree",),
}
"""Name -> settings; ``-whole`` sends every row of the word embeddings."""

Facts = dict[str, Any]
"""Of one step: ``step_s`` of the slowest rank and, of lightwork's, what its record says."""


@dataclass(frozen=True)
class Request:
    """What the ranks are to measure."""

    settings: str
    overrides: list[str]
    run: str
    contenders: list[str]
    rounds: int
    warmup: int
    out: str
    """Rank 0 writes here: ``steps``, by contender, and ``apart``, their distance in weights."""


@dataclass(frozen=True)
class Lane:
    """One contender, standing where its next step begins."""

    module: nn.Module
    step: Callable[[], Facts]


def make(start: Start, request: Request, name: str) -> Lane:
    """The contender ``name`` on this rank; called on every rank."""
    settings = load_settings(Path(request.settings), [*request.overrides, *CONTENDERS[name]])
    start = replace(start, settings=settings)
    if name != PEER:
        return _lightwork(make_ready(start))
    lane = make_lane(start, name)

    def step() -> Facts:
        lane.step(next(lane.works))
        return {}

    return Lane(lane.module, step)


def _lightwork(ready: Ready) -> Lane:
    works = ready.loader.work(1, 1 << 40)

    def step() -> Facts:
        work = next(works)
        clock = StepClock(ready.stepper.device)
        rate = ready.schedule.learning_rate(work.step)
        sync, outcome = ready.sync, ready.stepper.run(work.step, work, rate, clock)
        clock.stop()
        assert isinstance(sync, GradientBuckets)
        return _facts(sync.buckets, outcome, clock)

    return Lane(ready.model.module, step)


def _facts(buckets: Sequence[Bucket], outcome: Outcome, clock: StepClock) -> Facts:
    sync = outcome.sync
    return {
        "loss": outcome.loss,
        "blocked_s": clock.seconds().get("blocked", 0.0),
        "hidden_s": sync.hidden_s,
        "sent_bytes": sync.sent_bytes,
        "ready_s": [ready_s - clock.started_s for ready_s in sync.ready_s],
        "bucket_bytes": _message_bytes(buckets, sync.sent_bytes),
    }


def _message_bytes(buckets: Sequence[Bucket], sent_bytes: int) -> list[int]:
    """Of every message. Two ranks send what a bucket holds, whatever the strategy; what a table
    sends depends on the batch, and is what the others have not sent."""
    tables = [isinstance(bucket.sums, TableSums) for bucket in buckets]
    whole = [bucket.flat.nbytes for bucket in buckets]
    rest = sent_bytes - sum(size for size, table in zip(whole, tables, strict=True) if not table)
    return [rest if table else size for size, table in zip(whole, tables, strict=True)]


def measure(group: Group, lanes: dict[str, Lane], request: Request) -> dict[str, list[Facts]]:
    """The facts of every step that counts, by contender; all ranks begin a step together."""
    steps: dict[str, list[Facts]] = {name: [] for name in lanes}
    for number in range(-request.warmup, request.rounds):
        if group.rank == 0:
            print(f"round {number} of {request.rounds}", file=sys.stderr, flush=True)
        names = list(lanes)
        random.Random(number).shuffle(names)
        for name in names:
            group.all_reduce(torch.zeros(1)).wait()
            started_s = time.perf_counter()
            facts = lanes[name].step()
            facts["step_s"] = time.perf_counter() - started_s
            if number >= 0:
                steps[name].append(_joined(group.gather_json(facts)))
    return steps


def _joined(ranks: list[Facts]) -> Facts:
    """One step over all ranks. The slowest rank waits for no other, so that what it stood still is
    what the messages took; a bucket can be summed when the last rank has it ready."""
    facts = dict(ranks[0])
    facts["step_s"] = max(rank["step_s"] for rank in ranks)
    if "ready_s" in facts:
        moments = [rank["ready_s"] for rank in ranks]
        facts["exposed_s"] = min(rank["blocked_s"] for rank in ranks)
        facts["ready_s"] = [max(ready) for ready in zip(*moments, strict=True)]
    return facts


def distances(lanes: dict[str, Lane]) -> dict[str, float]:
    """How far the weights of each are from those of the first, relative to their length."""
    weights = {
        name: torch.cat([p.detach().double().flatten() for p in lane.module.parameters()])
        for name, lane in lanes.items()
    }
    first = next(iter(weights.values()))
    return {name: float((own - first).norm() / first.norm()) for name, own in weights.items()}


def run(request: Request) -> None:
    """Measure; called on every rank."""
    settings = load_settings(Path(request.settings), request.overrides)
    folder = Path(request.run)
    with failures_named(folder / "logs"), started(settings, folder) as start:
        lanes = {name: make(start, request, name) for name in request.contenders}
        found = {"steps": measure(start.group, lanes, request), "apart": distances(lanes)}
        if start.group.rank == 0:
            Path(request.out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    as_one_rank(Request, run)
