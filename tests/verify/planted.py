"""Verifying with a mistake planted somewhere in training; called like ``programs``.

Ranks are processes that end with the test, so nothing needs to be put back.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightwork.assembly import building, ready
from lightwork.comm.message import Finished
from lightwork.data import loader
from lightwork.data.plan import EpochPlan, assign
from lightwork.data.streams import stream_seed
from lightwork.sync import all_reduce, buckets
from lightwork.tasks.extractive import task
from lightwork.tasks.extractive.loss import span_loss
from lightwork.train import evaluate, optimizer
from lightwork.verify import padding
from tests.runs.planted import plant, plant_rank_order
from tests.verify.programs import Rows, verdicts


def rank() -> int:
    return int(os.environ["RANK"])


def one_seed_for_all_shares(*arguments: str) -> Rows:
    plant(loader, "stream_seed", lambda seed, step, _, index: stream_seed(seed, step, 0, index))
    return verdicts(*arguments)


def one_seed_for_all_steps(*arguments: str) -> Rows:
    plant(loader, "stream_seed", lambda seed, _, share, index: stream_seed(seed, 0, share, index))
    return verdicts(*arguments)


def one_seed_for_all_micro_batches(*arguments: str) -> Rows:
    plant(loader, "stream_seed", lambda seed, step, share, _: stream_seed(seed, step, share, 0))
    return verdicts(*arguments)


def a_seed_for_each_rank(*arguments: str) -> Rows:
    plant(loader, "stream_seed", lambda *name: stream_seed(*name, rank()))
    return verdicts(*arguments)


def nothing_is_seeded(*arguments: str) -> Rows:
    plant(torch, "manual_seed", lambda _: None)
    return verdicts(*arguments)


def the_epoch_is_forgotten(*arguments: str) -> Rows:
    plant(loader, "EpochPlan", lambda seed, _, *others: EpochPlan(seed, 0, *others))
    return verdicts(*arguments)


def only_the_order_of_batches_changes(*arguments: str) -> Rows:
    class Half(EpochPlan):
        def __init__(self, seed: int, epoch: int, *others: Any) -> None:
            super().__init__(seed, 0, *others)
            if epoch:
                self._starts = self._starts[::-1].copy()

    plant(loader, "EpochPlan", Half)
    return verdicts(*arguments)


def an_order_for_each_rank(*arguments: str) -> Rows:
    plant(loader, "EpochPlan", lambda seed, *others: EpochPlan(seed + rank(), *others))
    return verdicts(*arguments)


def ranks_overlap(*arguments: str) -> Rows:
    def overlapping(shares: int, ranks: int) -> list[range]:
        return [range(max(0, run.start - 1), run.stop) for run in assign(shares, ranks)]

    plant(ready, "assign", overlapping)
    return verdicts(*arguments)


def a_share_is_left_out(*arguments: str) -> Rows:
    plant(ready, "assign", lambda *sizes: [*assign(*sizes)[:-1], range(0)])
    return verdicts(*arguments)


def the_short_batch_is_dropped(*arguments: str) -> Rows:
    def without(self: EpochPlan, index: int) -> Any:
        windows = whole(self, index)
        return windows if len(windows) == self._batch_size else windows[:0]

    whole = EpochPlan.batch
    plant(EpochPlan, "batch", without)
    return verdicts(*arguments)


def every_batch_counts_as_a_full_one(*arguments: str) -> Rows:
    step = loader.Loader._step
    plant(loader.Loader, "_step", lambda *given: replace(step(*given), batch_weight=8.0))
    return verdicts(*arguments)


def the_loss_is_a_mean(*arguments: str) -> Rows:
    def mean(start: Tensor, end: Tensor, batch: dict[str, Tensor]) -> Tensor:
        return span_loss(start, end, batch) / len(start)

    plant(task, "span_loss", mean)
    return verdicts(*arguments)


def padding_is_in_the_loss(*arguments: str) -> Rows:
    def unmasked(start: Tensor, end: Tensor, batch: dict[str, Tensor]) -> Tensor:
        return span_loss(start, end, {**batch, "allowed": torch.ones_like(batch["allowed"])})

    plant(task, "span_loss", unmasked)
    return verdicts(*arguments)


def heads_are_unequal(*arguments: str) -> Rows:
    plant(building, "start_alike", lambda *_: "")
    plant(building, "stream_seed", lambda *name: stream_seed(*name, rank()))
    return verdicts(*arguments)


def a_bucket_is_not_sent(*arguments: str) -> Rows:
    """Every third one stays what this rank alone has."""
    opened: list[int] = []

    def start(self: Any) -> Any:
        return sent(self) if opened.index(id(self)) % 3 else Finished()

    def open_(self: Any, flat: Tensor) -> Any:
        kept.append(made(self, flat))
        opened.append(id(kept[-1]))
        return kept[-1]

    kept: list[Any] = []
    sent, made = all_reduce.RankSums.start, all_reduce.AllReduce.open
    plant(all_reduce.RankSums, "start", start)
    plant(all_reduce.AllReduce, "open", open_)
    return verdicts(*arguments)


def views_are_not_put_back(*arguments: str) -> Rows:
    def zero(self: Any) -> None:
        self.flat.zero_()
        self.sums.begin()
        self.missing = len(self.parameters)

    plant(buckets.Bucket, "zero", zero)
    return verdicts(*arguments)


def an_evaluation_batch_is_computed_twice(*arguments: str) -> Rows:
    plant(evaluate, "decode", lambda model, rows, own: decode(model, rows, [*own, *own[:1]]))
    return verdicts(*arguments)


def an_evaluation_batch_is_left_out(*arguments: str) -> Rows:
    plant(evaluate, "decode", lambda model, rows, own: decode(model, rows, own[rank() :]))
    return verdicts(*arguments)


decode = evaluate.decode


def dropout_stays_on_in_evaluation(*arguments: str) -> Rows:
    def training(model: Any) -> Any:
        model.module.train()
        return nullcontext()

    plant(evaluate, "evaluating", training)
    return verdicts(*arguments)


def candidates_are_lost(*arguments: str) -> Rows:
    """Of what the ranks found together, which rank 0 merges first, only half reaches it."""

    def half(self: Any, candidates: Any, rows: Any) -> Any:
        merges.append(1)
        return merge(self, list(candidates)[:: 2 if len(merges) == 1 else 1], rows)

    merge, merges = task.ExtractiveTask.merge, []  # type: ignore[var-annotated]
    plant(task.ExtractiveTask, "merge", half)
    return verdicts(*arguments)


def scoring_fails(*arguments: str) -> Rows:
    """On rank 0, the only one that scores."""

    def failing(*_: Any) -> Any:
        raise OSError("no room")

    plant(task.ExtractiveTask, "score", failing)
    return verdicts(*arguments)


def a_rank_learns_faster(*arguments: str) -> Rows:
    apply = optimizer.LocalUpdate.apply

    def faster(self: optimizer.LocalUpdate, rate: float, norm: float) -> None:
        apply(self, rate * (1 + rank()), norm)

    plant(optimizer.LocalUpdate, "apply", faster)
    return verdicts(*arguments)


def nothing_is_learned(*arguments: str) -> Rows:
    apply = optimizer.LocalUpdate.apply
    plant(optimizer.LocalUpdate, "apply", lambda self, _, norm: apply(self, 0.0, norm))
    return verdicts(*arguments)


def the_tree_follows_the_ranks(*arguments: str) -> Rows:
    plant_rank_order()
    return verdicts(*arguments)


def a_check_raises_on_one_rank(*arguments: str) -> Rows:
    def failing(*given: Any) -> Any:
        if rank() == 1:
            raise MemoryError("no room for padding")
        return measure(*given)

    measure = padding._measure
    plant(padding, "_measure", failing)
    return verdicts(*arguments)


def data_cannot_be_read_on_one_rank(*arguments: str) -> Rows:
    def failing(*given: Any) -> Any:
        if rank() == 1:
            raise OSError("the disk is gone")
        return collate(*given)

    collate = task.ExtractiveTask.collate
    plant(task.ExtractiveTask, "collate", failing)
    return verdicts(*arguments)
