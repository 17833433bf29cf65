"""``lightwork train --dry-run``: one step, one evaluation batch, one checkpoint, all let go again.

What fails after hours in a real run fails here within a minute: memory (the first batch of a run
is its largest, and so is the first evaluation batch), the disk, the other ranks, the data.
"""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

from rich.filesize import decimal

from lightwork.assembly.building import build_replica
from lightwork.assembly.ready import Ready, Start, make_ready
from lightwork.assembly.resuming import newest, take_over
from lightwork.assembly.training import held_alike, say_idle, started
from lightwork.comm.group import Group
from lightwork.errors import CheckpointError
from lightwork.settings import Settings
from lightwork.telemetry.timing import StepClock
from lightwork.train.checkpoint import Checkpoints
from lightwork.train.evaluate import evaluate
from lightwork.train.loop import host_memory, memory_bytes

log = logging.getLogger("lightwork")


def run_dry(settings: Settings, folder: Path) -> None:
    """Try everything a run does once, in ``folder``, which rank 0 removes; called on every rank."""
    with started(settings, folder) as start:
        ready = make_ready(start)
        say_idle(start)
        _say_data(start, ready)
        _try_step(start, ready)
        _try_evaluation(start, ready)
        _try_checkpoint(start, ready)
        _say_memory(start, ready)
        if start.group.rank == 0:
            shutil.rmtree(folder)
        log.info("dry run: all is well, nothing of it is kept")


def _say_data(start: Start, ready: Ready) -> None:
    windows = len(start.prepared.train)
    log.info(
        "dry run in %s: %s windows, %s steps in %d epochs of %s batches",
        start.precision,
        f"{windows:,}",
        f"{ready.schedule.total_steps:,}",
        start.settings.train.epochs,
        f"{ready.loader.batches_per_epoch:,}",
    )


def _try_step(start: Start, ready: Ready) -> None:
    """The first step of the run: its batch has the most tokens of all."""
    step = ready.done_steps + 1
    clock = StepClock(ready.stepper.device)
    outcome = ready.stepper.run(
        step,
        ready.loader.one(step),
        ready.schedule.learning_rate(step),
        clock=clock,
    )
    clock.stop()
    work = outcome.work
    tokens = sum(start.group.gather_json(work.real_tokens))
    log.info(
        "dry run: a step of %d windows, %s tokens: loss %.3f, %.1f s (the first is slower)",
        work.batch_windows,
        f"{tokens:,}",
        outcome.loss,
        clock.seconds()["step"],
    )


def _try_evaluation(start: Start, ready: Ready) -> None:
    dev = start.prepared.dev
    if dev is None:
        log.info("dry run: nothing to evaluate, since there is no data.dev")
        return
    started_s = time.perf_counter()
    tokens = start.settings.evaluate.batch_tokens
    evaluate(start.group, ready.model, dev, tokens, batches_per_rank=1)
    seconds = time.perf_counter() - started_s
    log.info(
        "dry run: an evaluation batch on every rank, of %s windows in all: %.1f s",
        f"{len(dev):,}",
        seconds,
    )


def _try_checkpoint(start: Start, ready: Ready) -> None:
    """Written and verified by rank 0, then read by all as a resume does."""
    started_s = time.perf_counter()
    checkpoints = Checkpoints(start.folder, start.record.run_id)
    step = ready.done_steps + 1
    sums = held_alike(start, ready).check(step)
    problem = None
    if start.group.rank == 0:
        try:
            checkpoints.write(step, ready.parts(step, sums, None))
        except CheckpointError as error:
            problem = str(error)
    _agree(start.group, problem)
    resume = newest(start.group, start.folder, start.record.run_id, None)
    assert resume is not None
    assert resume.step == step
    path = resume.checkpoint
    vocabulary = len(start.prepared.tokenizer)
    again = build_replica(
        start.group, start.settings, str(resume.model), vocabulary, start.world.device
    )
    take_over(start.group, resume, start.prepared.train, again, ready.update)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    start.group.gather_json(None)  # all have read before rank 0 removes it
    log.info(
        "dry run: a checkpoint of %s written, verified and read back: %.1f s; up to %d are "
        "kept, %s are free",
        decimal(size),
        time.perf_counter() - started_s,
        start.settings.checkpoint.keep + 1,
        decimal(shutil.disk_usage(start.folder).free),
    )


def _agree(group: Group, problem: str | None) -> None:
    """Every rank raises what any of them found."""
    problems = [text for text in group.gather_json(problem) if text]
    if problems:
        raise CheckpointError(f"the checkpoint of the dry run failed: {problems[0]}")


def _say_memory(start: Start, ready: Ready) -> None:
    device = ready.model.device
    told = start.group.gather_json(memory_bytes(device, host_memory()))
    log.info(
        "dry run: memory (%s) %s",
        device.type,
        ", ".join(f"rank {rank} {decimal(value)}" for rank, value in enumerate(told)),
    )
