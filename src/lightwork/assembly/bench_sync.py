"""``lightwork bench sync`` on one rank: the ways to exchange gradients, one after the other.

Every way is what ``sync.strategy`` makes of it in a run (``synchronised``), under a copy of the
same model. In a round a batch is computed with its exchange, computed without, and its gradients
are exchanged with nothing beside it. No step is applied.
"""

from __future__ import annotations

import copy
import gc
import json
import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

from rich.console import Console
from torch import nn

from lightwork.assembly.bench_rounds import Rounds
from lightwork.assembly.building import build_replica, shown_path
from lightwork.assembly.ready import Start, collate_of, cutting_of, make_loader, synchronised
from lightwork.assembly.rows import table_of
from lightwork.assembly.streaming import measure_link
from lightwork.assembly.training import started
from lightwork.data.loader import Loader, Work
from lightwork.errors import StepError
from lightwork.report import exchange_plot
from lightwork.report.exchange import Exchange, Way, nothing, show
from lightwork.report.exchange_advice import advise
from lightwork.settings import Settings
from lightwork.settings.running import SyncSettings
from lightwork.telemetry.progress import counting

log = logging.getLogger("lightwork")

BATCHES = 4
"""That take turns; the first of a plan is the longest of all and not among them."""
WARMUP = 2
BUCKET_STEPS = (0.25, 4.0)
"""Times ``sync.bucket_bytes``: tried with the way that was fastest."""


def run_bench_sync(
    settings: Settings, folder: Path, seconds: float, as_json: bool, plot: Path | None
) -> None:
    """Measure and show; called on every rank. ``folder`` is for logs and is removed.

    ``seconds``: how long to measure, about; a few rounds are done however long they take.
    """
    with started(settings, folder) as start:
        if start.world.launcher != "lightwork":  # which may kill its ranks, and removes nothing
            shutil.rmtree(folder, ignore_errors=True)
        exchange = measured(start, seconds) if start.group.size > 1 else None
        if start.group.rank == 0:
            say(exchange, as_json, plot)
            shutil.rmtree(folder, ignore_errors=True)


def say(exchange: Exchange | None, as_json: bool, plot: Path | None) -> None:
    """Print it, and write the plot; None: there was one rank."""
    if exchange is None:
        sys.stdout.write(nothing(as_json) + "\n")
        return
    advice = advise(exchange)
    if as_json:
        told = {**exchange.as_json(), "advice": vars(advice)}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        show(Console(), exchange, advice.words)
    if plot is not None:
        exchange_plot.write(plot, exchange, advice.words)
        log.info("the bars are in %s", shown_path(plot))


def measured(start: Start, seconds: float) -> Exchange:
    """Every way in its turn; the same on every rank."""
    settings, group = start.settings, start.group
    vocabulary = len(start.prepared.tokenizer)
    device = start.world.device
    module = build_replica(group, settings, settings.model.source, vocabulary, device)
    gradient_bytes = sum(p.nbytes for p in module.parameters() if p.requires_grad)
    title = _title(start, module, gradient_bytes)
    log.info("bench sync: %s; this takes about %.0f s", title, seconds)
    link = measure_link(group, device, gradient_bytes)
    variants = _variants(settings, table_of(module) is not None)
    bench = _Bench(start, module, seconds / (len(variants) + len(BUCKET_STEPS)))
    ways, left_out = [], {}
    with counting("bench sync") as progress:
        for number, sync in enumerate(variants):
            progress(number, len(variants))
            try:
                ways.append(bench.measure(sync))
            except StepError as error:
                if sync.strategy != "ddp":
                    raise
                left_out["ddp"] = str(error)
    own = settings.sync
    current = _place(ways, own)
    found = Exchange(
        group.size, title, gradient_bytes, link, bench.compute_s, ways, current, left_out
    )
    ways += [bench.measure(sync) for sync in list(_other_buckets(found, own, gradient_bytes))]
    return found


def _place(ways: Sequence[Way], own: SyncSettings) -> int:
    """Of the way that the settings name, or of the plainest where it could not be measured."""
    named = [
        number
        for number, way in enumerate(ways)
        if way.strategy == own.strategy
        and (way.asked == "auto" if own.rows == "auto" else way.rows == (own.rows == "on"))
    ]
    alike = [number for number, way in enumerate(ways) if way.strategy == own.strategy]
    return (named or alike or [0])[0]


def _title(start: Start, module: nn.Module, gradient_bytes: int) -> str:
    settings, device = start.settings, start.world.device.partition(":")[0]
    kind = type(module).__name__
    return (
        f"{start.group.size} ranks on {device} in {start.precision}, {kind} with "
        f"{gradient_bytes / 1e6:,.1f} MB of gradients, batches of {settings.train.batch_size} "
        "windows"
    )


def _variants(settings: Settings, has_table: bool) -> list[SyncSettings]:
    """What to measure: every strategy, with the touched rows of the word embeddings and without."""
    own, found = settings.sync, []
    for strategy in get_args(SyncSettings.model_fields["strategy"].annotation):
        if strategy == "tree" and settings.train.compile:
            continue  # settings refuse the two together
        both = has_table and strategy != "ddp"
        for rows in ("on", "off") if both else ("off",):
            found.append(own.model_copy(update={"strategy": strategy, "rows": rows}))
    return found


def _other_buckets(
    found: Exchange, own: SyncSettings, gradient_bytes: int
) -> Iterator[SyncSettings]:
    """The fastest way with smaller and larger buckets, where that cuts the gradient otherwise."""
    if not isinstance(own.bucket_bytes, int):
        return  # chosen by itself
    ways = [way for way in found.ways if way.strategy != "ddp"]
    best = min(ways, key=found.step_s).settings
    for times in BUCKET_STEPS:
        size = int(own.bucket_bytes * times)
        if min(size, own.bucket_bytes) < gradient_bytes:
            yield own.model_copy(update={**best, "bucket_bytes": size})


class _Bench:
    """The model and the batches that all ways share."""

    def __init__(self, start: Start, module: nn.Module, seconds: float) -> None:
        self._start = start
        self._module = module
        self._seconds = seconds
        self.compute_s: list[float] = []
        """Forward and backward of a batch in every round of every way: the same work."""
        self._works: list[Work] = []
        self._loader: Loader | None = None

    def measure(self, sync_settings: SyncSettings) -> Way:
        """One way, from first to last round."""
        gc.collect()  # hooks and parameters of the one before hold each other
        settings = self._start.settings.model_copy(update={"sync": sync_settings})
        start = replace(self._start, settings=settings)
        model, sync, use = synchronised(start, copy.deepcopy(self._module), {})
        sync_settings = sync_settings.model_copy(update={"bucket_bytes": use.bucket_bytes})
        if not self._works:
            words = partial(model.task.touched_rows, start.prepared.train)
            collate = collate_of(start, model)
            self._loader = make_loader(start, cutting_of(start), collate, words)
            self._works = list(self._loader.work(2, BATCHES + 1))
        assert self._loader is not None
        lane = Rounds(start.group, model, sync, self._loader)
        for number in range(WARMUP):
            lane.settle(self._works[number % BATCHES])
        lane.rounds(self._works, self._seconds)
        way, silent_s = lane.way(sync_settings, self._works)
        self.compute_s += silent_s
        return way
