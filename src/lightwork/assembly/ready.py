"""From one start of a run to everything a training step needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lightwork.assembly.building import answers_can_be_missing, build_replica, build_task
from lightwork.assembly.fingerprint import fingerprint, note_changes, note_longer, write_down
from lightwork.assembly.preparing import Prepared
from lightwork.assembly.resuming import (
    Resume,
    checkpoint_parts,
    constant_facts,
    newest,
    take_over,
)
from lightwork.assembly.rows import tables_of
from lightwork.assembly.strategies import Chosen, chosen, gradient_bytes, gradient_sync, strategy_of
from lightwork.comm.group import Group
from lightwork.comm.world import World
from lightwork.data.loader import Cutting, Loader
from lightwork.data.pinned import Collate, pinned
from lightwork.data.plan import Windows, assign, round_to_on
from lightwork.errors import SettingsError
from lightwork.settings import RunRecord, Settings, default_of
from lightwork.sync.contract import GradientSync
from lightwork.train.checkpoint import Part
from lightwork.train.duties import Sums
from lightwork.train.memory import fit
from lightwork.train.model import Model
from lightwork.train.optimizer import AdamWOptions, LocalUpdate
from lightwork.train.precision import Name, Precision
from lightwork.train.schedule import Schedule, scaled_rate
from lightwork.train.scores import Best
from lightwork.train.snapshots import Snapshots
from lightwork.train.step import Rules, Stepper

log = logging.getLogger("lightwork")


@dataclass(frozen=True)
class Start:
    """One start of a run, seen from one rank."""

    group: Group
    world: World
    settings: Settings
    folder: Path
    record: RunRecord
    prepared: Prepared

    @property
    def snapshots(self) -> Snapshots | None:
        """Those of this machine, where all ranks are on it: every rank reads what one wrote."""
        alone = self.world.local_size == self.world.size
        return Snapshots(self.record.run_id, run=self.folder) if alone else None

    @property
    def shares(self) -> int:
        """The shares of every batch, as the first start of the run fixed them."""
        assert self.record.shares is not None
        return self.record.shares

    @property
    def precision(self) -> Name:
        """In what the model computes, as the first start of the run chose."""
        assert self.record.precision is not None
        return self.record.precision


@dataclass(frozen=True)
class Ready:
    """What was built, standing where the run goes on."""

    model: Model
    sync: GradientSync
    """In charge of the gradients; the stepper's."""
    stepper: Stepper
    loader: Loader
    schedule: Schedule
    update: LocalUpdate
    parts: Callable[[int, Sums, Best | None], Iterable[Part]]
    """What the checkpoint of a step holds, copied when this is called."""
    done_steps: int
    """Updates the model holds already."""


def make_ready(start: Start) -> Ready:
    """Build everything and go to where the run stands; called on every rank."""
    resume = newest(start.group, start.folder, start.record.run_id, start.snapshots)
    model, sync, use = _model(start, resume)
    update = LocalUpdate(model.module, _adamw(start.settings))
    if resume:
        take_over(start.group, resume, start.prepared.train, model.module, update)
        sync.go_on(update.updated())
    words = partial(model.task.touched_rows, start.prepared.train)
    touched = words if sync.wants_rows else None
    loader = make_loader(start, cutting_of(start, resume), collate_of(start, model), touched)
    if resume is None and start.settings.train.micro_batch_tokens == "auto":
        _fit(start, model, loader)
    stepper = Stepper(start.group, model, sync, update, loader, _rules(start))
    if resume:
        stepper.load(resume.state.get("stepper", {}))
    schedule = _schedule(start.settings, loader)
    facts = {**_facts(start, model, loader), "sync": asdict(use)}
    if resume and resume.step < schedule.total_steps and start.group.rank == 0:
        note_changes(start.folder, resume.step, resume.fingerprint, facts["fingerprint"])
        known = resume.state.get("identity", start.record.identity)
        note_longer(start.folder, resume.step, known, start.record.identity)
    tokenizer = start.prepared.tokenizer
    return Ready(
        model=model,
        sync=sync,
        stepper=stepper,
        loader=loader,
        schedule=schedule,
        update=update,
        parts=checkpoint_parts(model.module, tokenizer, update, loader, stepper, facts),
        done_steps=resume.step if resume else 0,
    )


def cutting_of(start: Start, resume: Resume | None = None) -> Cutting:
    """How batches are cut. What memory was found to hold is not tried again after a resume."""
    train = start.settings.train
    tokens = train.micro_batch_tokens
    if resume and resume.state.get("asked_micro_batch_tokens") == tokens:
        tokens = resume.state["cutting"]["micro_batch_tokens"]
    return Cutting(
        train.seed,
        train.batch_size,
        start.shares,
        default_of("train.micro_batch_tokens") if tokens == "auto" else tokens,
        round_to_on(torch.device(start.world.device).type),
    )


def _fit(start: Start, model: Model, loader: Loader) -> None:
    """As large micro-batches as memory holds; on a CPU larger than usual ones gain nothing."""
    on_cpu = model.device.type == "cpu"
    fit(start.group, model, loader, loader.cutting.micro_batch_tokens if on_cpu else None)
    log.info(
        "micro-batches of up to %s padded tokens (train.micro_batch_tokens auto)",
        f"{loader.cutting.micro_batch_tokens:,}",
    )


def _facts(start: Start, model: Model, loader: Loader) -> dict[str, Any]:
    """What all checkpoints of this start say."""
    store, ranks = start.prepared.train, start.group.size
    facts = constant_facts(store, ranks, start.record, start.settings)
    strategy = start.settings.sync.strategy
    facts["fingerprint"] = fingerprint(start.group, model, strategy, loader.cutting)
    return facts


def _rules(start: Start) -> Rules:
    train = start.settings.train
    rules = Rules(train.on_nonfinite == "skip", train.max_skipped_steps)
    if start.group.rank == 0:
        return replace(rules, write_down=partial(write_down, start.folder))
    return rules


def _model(start: Start, resume: Resume | None) -> tuple[Model, GradientSync, Chosen]:
    settings, vocabulary = start.settings, len(start.prepared.tokenizer)
    source = str(resume.model) if resume else settings.model.source
    module = build_replica(start.group, settings, source, vocabulary, start.world.device)
    return synchronised(start, module, resume.state.get("sync", {}) if resume else {})


def synchronised(
    start: Start, module: nn.Module, before: dict[str, Any]
) -> tuple[Model, GradientSync, Chosen]:
    """``module``, equal on all ranks, with its gradients summed as the settings want it.

    ``before``: what the checkpoint that is gone on from says of that, if there is one.
    """
    prepared, device, settings = start.prepared, start.world.device, start.settings
    module.train()
    tables = tables_of(start.group, settings, module)
    travels = gradient_bytes(module, [table.name for table in tables])
    strategy = strategy_of(settings.sync.strategy, start.group, start.shares)
    use = chosen(settings.sync, start.group, strategy, travels, before)
    overlap = settings.sync.overlap == "backward"
    sync = gradient_sync(use, start.group, strategy, tables, overlap)
    task = build_task(start.settings, prepared.tokenizer, answers_can_be_missing(prepared.train))
    model = Model(
        module=module,
        trained=sync.attach(module),
        task=task,
        device=torch.device(device),
        example_ids=partial(task.example_ids, prepared.train),
        precision=Precision(start.precision, device),
    )
    return model, sync, use


def _adamw(settings: Settings) -> AdamWOptions:
    train = settings.train
    return AdamWOptions(
        beta1=train.adam_beta1,
        beta2=train.adam_beta2,
        epsilon=train.adam_epsilon,
        weight_decay=train.weight_decay,
        max_grad_norm=train.max_grad_norm,
    )


def collate_of(start: Start, model: Model) -> Collate:
    """What makes the tensors of a micro-batch, where the device fetches them best."""
    collate = partial(model.task.collate, start.prepared.train)
    return pinned(collate) if model.device.type == "cuda" else collate


def make_loader(
    start: Start,
    cutting: Cutting,
    collate: Callable[[Windows, int], Any],
    touched: Callable[[Windows], torch.Tensor] | None = None,
) -> Loader:
    """The work of this rank; ``collate`` makes the tensors of a micro-batch, ``touched`` gives the
    words of a batch."""
    store = start.prepared.train
    return Loader(
        store.column("tokens"),
        store.column("weight"),
        cutting,
        assign(start.shares, start.group.size)[start.group.rank],
        collate,
        touched,
    )


def _schedule(settings: Settings, loader: Loader) -> Schedule:
    train = settings.train
    steps = train.epochs * loader.batches_per_epoch
    peak = scaled_rate(
        train.learning_rate, train.batch_size, train.reference_batch_size, train.lr_rule
    )
    if peak > 1:
        raise SettingsError(
            f"train.lr_rule {train.lr_rule} makes {peak:g} of train.learning_rate "
            f"{train.learning_rate:g}, which is more than 1; lower one of train.learning_rate and "
            "train.batch_size / train.reference_batch_size"
        )
    if peak != train.learning_rate:
        log.info(
            "learning rate %g instead of %g: the batch has %d windows, not %d (train.lr_rule %s)",
            peak,
            train.learning_rate,
            train.batch_size,
            train.reference_batch_size,
            train.lr_rule,
        )
    return Schedule(
        peak=peak,
        total_steps=min(steps, train.max_steps or steps),
        warmup_ratio=train.warmup_ratio,
        kind=train.schedule,
    )
