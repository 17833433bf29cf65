"""The pieces of a run that training and evaluation share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lightwork.comm.group import Group
from lightwork.comm.world import (
    World,
    bind_device,
    read_world,
    threads_per_rank,
    visible_gpus,
)
from lightwork.data.store import Store
from lightwork.data.streams import stream_seed
from lightwork.errors import SettingsError
from lightwork.settings import Settings
from lightwork.tasks.extractive.model import ScratchShape, build_model, check_length, freeze
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.telemetry.logs import logging_to
from lightwork.train.blocks import change_blocks
from lightwork.train.determinism import set_arithmetic
from lightwork.train.replicas import start_alike

_HEAD_STREAM = -1  # steps count from 1


@contextmanager
def place_of_this_rank(settings: Settings, log_dir: Path | None) -> Iterator[World]:
    """Read the world, choose kernels and device before anything touches CUDA, open the log."""
    world = read_world(os.environ, visible_gpus(), settings.launch.device)
    with logging_to(log_dir, world.rank):
        set_arithmetic(world.device, deterministic=is_deterministic(settings))
        bind_device(world, compute_threads(settings, world))
        yield world


def is_deterministic(settings: Settings) -> bool:
    """Whether the same bits are asked for every time; the tree means nothing without it."""
    return settings.train.deterministic or settings.sync.strategy == "tree"


def compute_threads(settings: Settings, world: World) -> int:
    """Threads of this rank; by default this machine's cores are divided among its ranks."""
    if settings.launch.threads != "auto":
        return settings.launch.threads
    return threads_per_rank(world)


def build_task(
    settings: Settings, tokenizer: Any, no_answer: bool, no_answer_threshold: float | None = None
) -> ExtractiveTask:
    """The extractive task as these settings want it."""
    answering = Answering(
        n_best=settings.evaluate.n_best,
        max_answer_tokens=settings.evaluate.max_answer_tokens,
        no_answer=no_answer,
        no_answer_threshold=no_answer_threshold,
        language=settings.data.language,
    )
    return ExtractiveTask.with_tokenizer(tokenizer, answering)


def build_replica(
    group: Group, settings: Settings, source: str, vocabulary: int, device: str
) -> torch.nn.Module:
    """The model, equal on all ranks: rank 0 loads or draws the weights, the others receive them.

    Raises SettingsError, on all ranks together, when a rank cannot build it.
    """
    module, problem = None, None
    try:
        module = _built(settings, source, vocabulary, weights=group.rank == 0)
    except SettingsError as error:
        problem = str(error)
    problems = [text for text in group.gather_json(problem) if text is not None]
    if module is None or problems:
        raise SettingsError(problems[0])
    module.to(torch.device(device))
    start_alike(group, module)
    check_finite(module, source)
    return module


def check_finite(module: torch.nn.Module, source: str) -> None:
    """Raise SettingsError where a weight is no number: nothing could be learned from there."""
    for name, parameter in module.named_parameters():
        if not bool(parameter.detach().isfinite().all()):
            raise SettingsError(
                f"the model {source} cannot be used: {name} holds values that are not finite "
                "numbers. Take another model, or another checkpoint of it"
            )


def _built(settings: Settings, source: str, vocabulary: int, weights: bool) -> torch.nn.Module:
    """What one rank can do by itself."""
    model, train = settings.model, settings.train
    torch.manual_seed(stream_seed(train.seed, _HEAD_STREAM))
    module = build_model(
        source,
        dropout=model.dropout,
        attention=model.attention,
        weights=weights,
        scratch=ScratchShape(
            layers=model.scratch_layers,
            hidden=model.scratch_width,
            heads=model.scratch_heads,
            intermediate=4 * model.scratch_width,
            positions=settings.data.max_length,
        ),
        vocabulary=vocabulary,
    )
    check_length(module, settings.data.max_length)
    freeze(module, model.freeze)
    change_blocks(ExtractiveTask.blocks(module), train.activation_checkpointing, train.compile)
    return module


def answers_can_be_missing(store: Store) -> bool:
    """Whether some question of these files has no answer, so that "no answer" is one."""
    return bool(store.facts["impossible"])


def shown_path(path: Path) -> str:
    """A path as a person in the current folder would write it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
