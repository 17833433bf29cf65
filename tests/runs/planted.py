"""Training with a mistake in one of the things that bits depend on; called like ``programs``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightwork.data import loader
from lightwork.data.streams import stream_seed
from lightwork.sync import tree
from lightwork.tasks.extractive.task import ExtractiveTask
from lightwork.train.gradients import Gradients
from lightwork.train.model import Model
from tests.runs.programs import train


def sum_in_rank_order(settings: str, run: str, *overrides: str) -> None:
    """What the ranks hold is added up from the first rank to the last."""

    def in_order(journey: Any, _: tree.Node) -> Tensor:
        pieces: dict[range, Tensor] = journey._pieces
        first, *others = (pieces[shares] for shares in sorted(pieces, key=lambda run: run.start))
        for piece in others:
            first += piece
        return first

    plant(tree._Journey, "_sum", in_order)
    train(settings, run, *overrides)


def accumulate_shares_together(settings: str, run: str, *overrides: str) -> None:
    """All shares of a rank add up in one buffer."""
    plant(tree.ShareSums, "reach", lambda sums, share: None)
    train(settings, run, *overrides)


def draw_by_rank(settings: str, run: str, *overrides: str) -> None:
    """Every rank has random streams of its own."""
    rank = int(os.environ["RANK"])
    plant(loader, "stream_seed", lambda *name: stream_seed(*name, rank))
    train(settings, run, *overrides)


def little_memory(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 has no memory for more than 64 tokens at a time."""
    forward = ExtractiveTask.forward

    def limited(task: ExtractiveTask, model: Any, batch: Any) -> Any:
        if batch["input_ids"].numel() > 64 and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return forward(task, model, batch)

    if os.environ["RANK"] == "1":
        plant(ExtractiveTask, "forward", limited)
    train(settings, run, *overrides)


def infinite_gradient(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 gets an infinite gradient in steps 2 and 5, from one of its micro-batches."""
    compute, loss = Gradients.compute, Model.loss
    now = [0]

    def watched(gradients: Gradients, step: int, *rest: Any) -> Any:
        now[0] = step
        return compute(gradients, step, *rest)

    def poisoned(model: Model, module: Any, piece: Any) -> Tensor:
        found = loss(model, module, piece)
        if now[0] in (2, 5) and piece.index == 0:
            found.register_hook(lambda gradient: gradient * float("inf"))
        return found

    if os.environ["RANK"] == "1":
        plant(Gradients, "compute", watched)
        plant(Model, "loss", poisoned)
    train(settings, run, *overrides)


def plant(place: Any, name: str, wrong: Callable[..., Any]) -> None:
    """Ranks are processes that end with the test, so nothing needs to be put back."""
    assert hasattr(place, name)
    setattr(place, name, wrong)
