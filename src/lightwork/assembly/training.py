"""``lightwork train`` on one rank: from settings to a running loop."""

from __future__ import annotations

import fcntl
import logging
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lightwork.assembly.building import (
    answers_can_be_missing,
    build_replica,
    build_task,
    place_of_this_rank,
    shown_path,
)
from lightwork.assembly.preparing import Prepared, prepare
from lightwork.assembly.resuming import checkpoint_parts, constant_facts, newest, take_over
from lightwork.comm.group import Group
from lightwork.comm.world import World, open_group
from lightwork.data.loader import Cutting, Loader
from lightwork.errors import LaunchError, RunError
from lightwork.settings import RunRecord, Settings, identity, open_run, write_run
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.contract import GradientSync
from lightwork.sync.ddp import DdpSync
from lightwork.tasks.contract import Batch
from lightwork.telemetry.recorder import MetricsFile, StepDisplay
from lightwork.train.checkpoint import Checkpoints
from lightwork.train.duties import Calendar, Duties, Scores
from lightwork.train.evaluate import evaluate
from lightwork.train.loop import Telemetry, train
from lightwork.train.optimizer import AdamWOptions, LocalUpdate
from lightwork.train.schedule import Schedule
from lightwork.train.step import Model, Stepper

log = logging.getLogger("lightwork")


def run_train(settings: Settings, run: Path) -> None:
    """Train, or go on with, the run in the folder ``run``; called on every rank."""
    with place_of_this_rank(settings, run / "logs") as world:
        prepared = prepare(settings)
        # The group comes last, so that no rank waits in it for data to be prepared.
        lock = _only_training(run) if world.rank == 0 else nullcontext()
        with lock, open_group(world, settings.sync.timeout_s) as group:
            record = _begin(group, settings, run)
            _Run(group, world, settings, run, record, prepared).train()


@contextmanager
def _only_training(run: Path) -> Iterator[None]:
    """Hold the run folder; the system lets go of it when the process ends, however it ends."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"the run folder {run} is in use by another training; wait for it, stop it, or "
                "choose another folder with --run"
            ) from None
        yield


def _begin(group: Group, settings: Settings, run: Path) -> RunRecord:
    """Count this start in the run's record, and give all ranks the record of rank 0."""
    values = identity(settings)
    record = None
    if group.rank == 0:
        record = open_run(run, settings)
        shares = record.shares or _shares(settings, group.size)
        record = replace(record, shares=shares, attempts=record.attempts + 1)
        write_run(run, record)
    told = group.gather_json({"record": record and asdict(record), "identity": values})
    for rank, other in enumerate(told):
        if other["identity"] != told[0]["identity"]:
            raise LaunchError(
                f"rank {rank} was started with other settings or data than rank 0; all ranks "
                "need the same"
            )
    return RunRecord(**told[0]["record"])


def _shares(settings: Settings, ranks: int) -> int:
    return ranks if settings.train.shares == "auto" else settings.train.shares


@dataclass(frozen=True)
class _Run:
    """One start of a run, seen from one rank."""

    group: Group
    world: World
    settings: Settings
    folder: Path
    record: RunRecord
    prepared: Prepared

    def train(self) -> None:
        """Build everything, go to where the run stands, and train to the end."""
        resume = newest(self.group, self.folder)
        model, sync = self._model(str(resume.model) if resume else self.settings.model.source)
        update = LocalUpdate(model.module, self._adamw())
        if resume:
            take_over(self.group, resume, self.prepared.train, update)
        cutting, loader = self._loader(model)
        schedule = self._schedule(loader)
        done = resume.step if resume else 0
        self._say_start(schedule, cutting, done)
        stepper = Stepper(
            self.group,
            model,
            sync,
            update,
            self._filler(model),
        )
        duties = self._duties(model, update, loader, cutting, schedule)
        display = StepDisplay(schedule.total_steps, self.settings.train.log_every_steps)
        with self._telemetry(display) as telemetry:
            train(stepper, loader, schedule, duties, telemetry, first_step=done + 1)
        self._say_end(schedule)

    def _model(self, source: str) -> tuple[Model, GradientSync]:
        prepared, device = self.prepared, self.world.device
        vocabulary = len(prepared.tokenizer)
        module = build_replica(self.group, self.settings, source, vocabulary, device)
        module.train()
        sync = self._sync()
        task = build_task(self.settings, prepared.tokenizer, answers_can_be_missing(prepared.train))
        model = Model(
            module=module,
            trained=sync.attach(module),
            task=task,
            device=torch.device(device),
            example_ids=partial(task.example_ids, prepared.train),
        )
        return model, sync

    def _filler(self, model: Model) -> Callable[[], Batch]:
        """The first window as a micro-batch."""
        store = self.prepared.train
        length = int(store.column("tokens")[0])
        return partial(model.task.collate, store, np.zeros(1, np.int32), length)

    def _sync(self) -> GradientSync:
        sync = self.settings.sync
        if sync.strategy == "ddp":
            return DdpSync(self.group, sync.bucket_bytes)
        return GradientBuckets(AllReduce(self.group), sync.bucket_bytes)

    def _adamw(self) -> AdamWOptions:
        train = self.settings.train
        return AdamWOptions(
            beta1=train.adam_beta1,
            beta2=train.adam_beta2,
            epsilon=train.adam_epsilon,
            weight_decay=train.weight_decay,
            max_grad_norm=train.max_grad_norm,
        )

    def _loader(self, model: Model) -> tuple[Cutting, Loader]:
        train, store = self.settings.train, self.prepared.train
        assert self.record.shares is not None
        cutting = Cutting(
            train.seed, train.batch_size, self.record.shares, train.micro_batch_tokens
        )
        loader = Loader(
            store.column("tokens"),
            store.column("weight"),
            cutting,
            self.group.rank,
            self.group.size,
            partial(model.task.collate, store),
        )
        return cutting, loader

    def _schedule(self, loader: Loader) -> Schedule:
        train = self.settings.train
        steps = train.epochs * loader.batches_per_epoch
        return Schedule(
            peak=train.learning_rate,
            total_steps=min(steps, train.max_steps or steps),
            warmup_ratio=train.warmup_ratio,
            kind=train.schedule,
        )

    def _duties(
        self,
        model: Model,
        update: LocalUpdate,
        loader: Loader,
        cutting: Cutting,
        schedule: Schedule,
    ) -> Duties:
        settings, prepared = self.settings, self.prepared
        checkpoint = settings.checkpoint
        calendar = Calendar(
            last_step=schedule.total_steps,
            epoch_steps=loader.batches_per_epoch,
            save_every_s=checkpoint.every_minutes and checkpoint.every_minutes * 60,
            save_every_steps=checkpoint.every_steps,
            keep=checkpoint.keep,
            evaluate_every_steps=settings.train.evaluate_every_steps,
        )
        facts = constant_facts(prepared.train, cutting, self.group.size, self.record.identity)
        score: Any = None
        if prepared.dev is not None:
            score = partial(
                evaluate, self.group, model, prepared.dev, settings.evaluate.batch_tokens
            )
        return Duties(
            self.group,
            calendar,
            Checkpoints(self.folder),
            checkpoint_parts(model.module, prepared.tokenizer, update, facts, loader),
            score,
            Scores(self.folder, model.task.metric),
        )

    @contextmanager
    def _telemetry(self, display: StepDisplay) -> Iterator[Telemetry]:
        rank = self.group.rank
        metrics = MetricsFile(self.folder / "metrics", rank)
        every = self.settings.train.log_every_steps
        shown = display if rank == 0 else None
        try:
            with shown or nullcontext():
                yield Telemetry(metrics, shown, every, rank, self.record.attempts)
        finally:
            metrics.close()

    def _say_start(self, schedule: Schedule, cutting: Cutting, done: int) -> None:
        ranks = self.group.size
        if done >= schedule.total_steps:
            log.info("this run is finished: it has done all its %d steps", schedule.total_steps)
            return
        where = f"after step {done}" if done else "from the start"
        log.info(
            "training %s of %d on %d %s (%s, %d threads each), %d shares, %s",
            where,
            schedule.total_steps,
            ranks,
            "rank" if ranks == 1 else "ranks",
            self.world.device.partition(":")[0],
            torch.get_num_threads(),
            cutting.shares,
            self.settings.sync.strategy,
        )
        if ranks > cutting.shares:
            log.warning(
                "%d of the %d ranks have nothing to do: every batch of this run is cut in %d "
                "shares. Start with --ranks %d, or a new run with train.shares=%d",
                ranks - cutting.shares,
                ranks,
                cutting.shares,
                cutting.shares,
                ranks,
            )

    def _say_end(self, schedule: Schedule) -> None:
        checkpoints = Checkpoints(self.folder)
        best = checkpoints.best() or checkpoints.at(schedule.total_steps)
        log.info(
            "finished %d steps; the best model is %s",
            schedule.total_steps,
            shown_path(best / "model"),
        )
        log.info("next: lightwork evaluate %s --data FILE", shlex.quote(shown_path(self.folder)))
