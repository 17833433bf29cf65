"""``lightwork train`` on one rank: from settings to a running loop."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lightwork.assembly.building import is_deterministic, place_of_this_rank, shown_path
from lightwork.assembly.fingerprint import LEDGER
from lightwork.assembly.opening import begin, check_storage, only_training
from lightwork.assembly.preparing import prepare
from lightwork.assembly.ready import Ready, Start, make_ready
from lightwork.assembly.suspects import Plan, with_ids
from lightwork.comm.phases import enter
from lightwork.comm.signals import StopSignals
from lightwork.comm.world import open_group
from lightwork.errors import NotFiniteError, RunError
from lightwork.report.explaining import explained, sentence
from lightwork.report.finding import Finding
from lightwork.report.live import watching
from lightwork.settings import (
    Settings,
    numbered,
    steps_of,
    to_yaml,
    write_run,
)
from lightwork.telemetry.cards import Card, open_card
from lightwork.telemetry.profiling import Profile
from lightwork.telemetry.recorder import MetricsFile, StepDisplay
from lightwork.telemetry.sampling import Sampler
from lightwork.telemetry.sinks import Place, Sinks
from lightwork.train.calendar import Calendar
from lightwork.train.checkpoint import Checkpoints
from lightwork.train.determinism import refusals_named
from lightwork.train.duties import Duties, State
from lightwork.train.evaluate import evaluate
from lightwork.train.loop import Telemetry, train
from lightwork.train.memory import total_bytes
from lightwork.train.replicas import check_alike
from lightwork.train.scores import Scores

log = logging.getLogger("lightwork")


def run_train(settings: Settings, run: Path) -> None:
    """Train, or go on with, the run in the folder ``run``; called on every rank."""
    with StopSignals() as signals, started(settings, run) as start:
        check_storage(start.group, run, start.record.run_id)
        ready = make_ready(start)
        if start.group.rank == 0:
            write_run(run, replace(start.record, total_steps=ready.schedule.total_steps))
        _say_start(start, ready)
        with signals.heeded():
            with (
                _telemetry(start, ready) as telemetry,
                _duties(start, ready, telemetry, signals) as duties,
            ):
                first = ready.done_steps + 1
                last = train(ready.stepper, ready.loader, ready.schedule, duties, telemetry, first)
            enter("end")  # a signal from here on is noted by nobody: all is done
            _say_end(start, ready, last) if not duties.time_is_up else _say_paused(ready, last)


@contextmanager
def started(settings: Settings, run: Path) -> Iterator[Start]:
    """This rank's place in a group that holds the run folder ``run``, with the data prepared."""
    with place_of_this_rank(settings, run / "logs") as world:
        enter("prepare")
        prepared = prepare(settings)
        enter("meeting")
        # The group comes last, so that no rank waits in it for data to be prepared.
        lock = only_training(run) if world.rank == 0 else nullcontext()
        with lock, open_group(world, settings.sync.timeout_s) as group:
            enter("build")
            record = begin(group, settings, run, world.device)
            settings = numbered(settings, record.identity)
            if record.threads is not None:
                torch.set_num_threads(record.threads)
            with refusals_named():
                yield Start(group, world, settings, run, record, prepared)


@contextmanager
def _telemetry(start: Start, ready: Ready) -> Iterator[Telemetry]:
    """Where the steps of this rank are written and, on rank 0, shown."""
    rank, chosen = start.group.rank, start.settings.telemetry
    first, last = ready.done_steps + 1, ready.schedule.total_steps
    with ExitStack() as closing:
        metrics = MetricsFile(start.folder / "metrics", rank)
        closing.callback(metrics.close)
        place = Place(start.folder, start.record.run_id, rank, first)
        sinks = closing.enter_context(Sinks(chosen.sinks, place))
        every, display = start.settings.train.log_every_steps, None
        if rank == 0:
            sinks.text("settings", to_yaml(start.settings))
            display = closing.enter_context(StepDisplay(last, every))
            name = partial(_named, start, ready)
            closing.enter_context(watching(start.folder, start.record.attempts, name))
        wanted = steps_of(start.settings.telemetry.profile_steps)
        device = torch.device(start.world.device)
        yield Telemetry(
            metrics=metrics,
            sinks=sinks,
            sampler=Sampler(_card(device)),
            profile=Profile(wanted, start.folder / "profile", rank, range(first, last + 1)),
            display=display,
            log_every_steps=every,
            rank=rank,
            attempt=start.record.attempts,
            device=device,
            memory_total_bytes=total_bytes(device, start.world.local_size),
        )


def _card(device: torch.device) -> Card | None:
    """What tells of the card of this rank, if it has one."""
    if device.type != "cuda":
        return None
    return open_card(torch.cuda.get_device_properties(device))


def _duties(start: Start, ready: Ready, telemetry: Telemetry, signals: StopSignals) -> Duties:
    settings, dev = start.settings, start.prepared.dev
    checkpoint, minutes = settings.checkpoint, settings.train.max_minutes
    hot = checkpoint.snapshot_every_steps
    calendar = Calendar(
        last_step=ready.schedule.total_steps,
        epoch_steps=ready.loader.batches_per_epoch,
        save_every_s=checkpoint.every_minutes and checkpoint.every_minutes * 60,
        save_every_steps=checkpoint.every_steps,
        keep=checkpoint.keep,
        evaluate_every_steps=settings.train.evaluate_every_steps,
        patience=settings.train.patience,
        check_every_steps=settings.train.check_replicas_every_steps,
        snapshot_every_steps=hot if start.snapshots else None,
        ends_s=minutes and start.world.started_s + minutes * 60,
        stop_signal=lambda: signals.received,
    )
    score: Any = None
    if dev is not None:
        score = partial(evaluate, start.group, ready.model, dev, settings.evaluate.batch_tokens)
        score = signals.at_once()(score)  # a checkpoint was written before it
    return Duties(
        start.group,
        calendar,
        Checkpoints(start.folder, start.record.run_id),
        replace(held_alike(start, ready), snapshots=start.snapshots if hot else None),
        score,
        Scores(start.folder, telemetry.sinks),
    )


def held_alike(start: Start, ready: Ready) -> State:
    """The weights, buffers and optimizer state that every rank keeps a copy of."""
    module = ready.model.module

    def held() -> dict[str, torch.Tensor]:
        return dict(module.named_parameters()) | dict(module.named_buffers()) | ready.update.parts()

    return State(ready.parts, partial(check_alike, start.group, held))


def _say_start(start: Start, ready: Ready) -> None:
    ranks, total = start.group.size, ready.schedule.total_steps
    threads = torch.get_num_threads()
    if ready.done_steps >= total:
        log.info(
            "this run is finished: it has done all its %d %s",
            total,
            "step" if total == 1 else "steps",
        )
        return
    where = f"after step {ready.done_steps}" if ready.done_steps else "from the start"
    log.info(
        "training %s of %d on %d %s (%s, %s, %d %s each), %d %s, %s",
        where,
        total,
        ranks,
        "rank" if ranks == 1 else "ranks",
        start.world.device.partition(":")[0],
        start.precision,
        threads,
        "thread" if threads == 1 else "threads",
        start.shares,
        "share" if start.shares == 1 else "shares",
        start.settings.sync.strategy,
    )
    tree = start.settings.sync.strategy == "tree"
    if tree:
        _say_bits(start)
    if is_deterministic(start.settings):
        implied = ", as sync.strategy tree implies" if tree else ""
        log.info("kernels are deterministic and without TF32 (train.deterministic%s)", implied)
    if start.prepared.dev is not None and start.group.rank == 0:
        log.info("held-out: %s", ready.model.task.scored_as(start.prepared.dev))
    say_idle(start)


def say_idle(start: Start) -> None:
    """More ranks than shares: some host none."""
    ranks, idle = start.group.size, start.group.size - start.shares
    if idle > 0:
        log.warning(
            "%d of the %d ranks %s nothing to do: every batch of this run is cut in %d %s. "
            "Start with --ranks %d, or a new run with train.shares=%d",
            idle,
            ranks,
            "has" if idle == 1 else "have",
            start.shares,
            "share" if start.shares == 1 else "shares",
            start.shares,
            ranks,
        )


def _say_bits(start: Start) -> None:
    threads = torch.get_num_threads()
    log.info(
        "tree: %s; every rank computes with %d %s whatever their number (launch.threads)",
        "the weights have the same bits at any number of ranks"
        if start.world.device == "cpu"
        else "gradients are summed in one order, but equal bits are not promised on cuda yet",
        threads,
        "thread" if threads == 1 else "threads",
    )


def _say_paused(ready: Ready, last_step: int) -> None:
    log.info(
        "time is up (train.max_minutes) after %d of %d steps; they are saved, and the same command "
        "goes on",
        last_step,
        ready.schedule.total_steps,
    )


def _say_verdict(start: Start, ready: Ready, shown: str) -> None:
    """What held the run up, and what to beware of, if there are enough steps to tell."""
    with suppress(RunError):
        first, *others = explained(start.folder)[1]
        log.info("%s; more by: lightwork explain %s", sentence(_named(start, ready, first)), shown)
        for finding in others:
            if finding.warns:
                log.warning("%s", sentence(_named(start, ready, finding)))


def _named(start: Start, ready: Ready, finding: Finding) -> Finding:
    """With the ids of the examples behind it."""
    return with_ids(finding, Plan(start.prepared.train, ready.loader.cutting, start.group.size))


def _say_end(start: Start, ready: Ready, last_step: int) -> None:
    skipped = ready.stepper.skipped_steps
    if skipped == last_step:
        raise NotFiniteError(
            f"all {last_step} steps were left out (train.on_nonfinite), so nothing was learned: "
            f"{shown_path(start.folder / LEDGER)} says why"
        )
    if skipped:
        log.warning("%d of %d steps were left out (train.on_nonfinite)", skipped, last_step)
    checkpoints = Checkpoints(start.folder)
    best = start.folder / "best" if checkpoints.best() else checkpoints.at(last_step)
    log.info("finished %d steps; the best model is %s", last_step, shown_path(best / "model"))
    folder = shlex.quote(shown_path(start.folder))
    if start.group.rank == 0:
        _say_verdict(start, ready, folder)
    data = "" if start.prepared.dev is not None else " --data FILE"
    log.info("next: lightwork evaluate %s%s", folder, data)
    log.info('      lightwork answer %s --context FILE "QUESTION"', folder)
