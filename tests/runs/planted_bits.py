"""Training with one thing otherwise that must stay for equal bits; called like ``programs``."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightwork.data import loader
from lightwork.data.plan import MicroBatch, cut
from lightwork.sync import tree
from lightwork.sync.buckets import Bucket, GradientBuckets
from lightwork.train import gradients
from lightwork.train.model import Model
from lightwork.train.optimizer import LocalUpdate
from tests.runs.planted import plant
from tests.runs.programs import train


def other_company(settings: str, run: str, *overrides: str) -> None:
    """The shortest window of each share goes to the next share."""

    def moved(*given: Any, **more: Any) -> list[list[MicroBatch]]:
        shares = cut(*given, **more)
        for here, there in zip(shares, shares[1:] + shares[:1], strict=True):
            if here and len(here[-1].windows) > 1:
                *rest, last = here[-1].windows
                here[-1] = MicroBatch(np.array(rest, np.int32), here[-1].padded_tokens)
                there.append(MicroBatch(np.array([last], np.int32), here[-1].padded_tokens))
        return shares

    plant(loader, "cut", moved)
    train(settings, run, *overrides)


def other_padding(settings: str, run: str, *overrides: str) -> None:
    """Windows are padded to multiples of 16."""

    def padded(*given: Any) -> list[list[MicroBatch]]:
        windows, lengths, shares, micro_batch_tokens, _ = given
        return cut(windows, lengths, shares, micro_batch_tokens, round_to=16)

    plant(loader, "cut", padded)
    train(settings, run, *overrides)


def other_order(settings: str, run: str, *overrides: str) -> None:
    """The micro-batches of a share are added up from the last to the first."""
    plant(loader, "cut", lambda *given: [share[::-1] for share in cut(*given)])
    train(settings, run, *overrides)


def scaled_after_backward(settings: str, run: str, *overrides: str) -> None:
    """The summed gradient is divided by the count, not the loss."""
    compute = gradients.Gradients.compute

    def unscaled(self: gradients.Gradients, number: int, work: Any, *rest: Any) -> Any:
        weight = work.batch_weight
        object.__setattr__(work, "batch_weight", 1.0)
        trial = compute(self, number, work, *rest)
        object.__setattr__(work, "batch_weight", weight)
        for bucket in self._sync.buckets:  # type: ignore[attr-defined]
            bucket.flat.div_(weight)
        return trial

    plant(gradients.Gradients, "compute", unscaled)
    train(settings, run, *overrides)


def norm_of_buckets(settings: str, run: str, *overrides: str) -> None:
    """The norm for clipping is put together from buckets, not from parameters."""
    buckets: list[Bucket] = []
    begin = GradientBuckets.begin

    def noted(self: GradientBuckets, measure: bool, rows: Tensor | None) -> None:
        buckets[:] = self.buckets
        begin(self, measure, rows)

    def measured(self: LocalUpdate, scale: float) -> float:
        assert scale == 1.0
        squares = [bucket.flat.square().sum() for bucket in buckets]
        return float(torch.stack(squares).sum().sqrt())

    plant(GradientBuckets, "begin", noted)
    plant(LocalUpdate, "measure", measured)
    train(settings, run, *overrides)


def optimizer_in_slices(settings: str, run: str, *overrides: str) -> None:
    """Each parameter is updated in three pieces, as on three servers."""
    sliced: list[torch.optim.Optimizer] = []

    def pieces(parameter: Tensor) -> list[Tensor]:
        return list(parameter.detach().view(-1).tensor_split(3))

    def apply(self: LocalUpdate, learning_rate: float, norm: float) -> None:
        parameters = [p for p in self._named.values() if p.grad is not None]
        assert self._max_grad_norm is not None
        total = torch.tensor(norm)
        torch.nn.utils.clip_grads_with_norm_(parameters, self._max_grad_norm, total)
        if not sliced:
            groups = [
                {**group, "params": [piece for p in group["params"] for piece in pieces(p)]}
                for group in self._optimizer.param_groups
            ]
            sliced.append(torch.optim.AdamW(groups, fused=True))
        for group, whole in zip(sliced[0].param_groups, self._optimizer.param_groups, strict=True):
            group["lr"] = learning_rate
            found = [piece for p in whole["params"] for piece in p.grad.view(-1).tensor_split(3)]
            for piece, gradient in zip(group["params"], found, strict=True):
                piece.grad = gradient
        sliced[0].step()

    plant(LocalUpdate, "apply", apply)
    train(settings, run, *overrides)


def overflow_in_share_0(settings: str, run: str, *overrides: str, decided: str = "all") -> None:
    """In step 3 the gradient of the first share is infinite, wherever it is hosted."""
    now = [0]
    compute, loss, start = gradients.Gradients.compute, Model.loss, tree.ShareSums.start

    def watched(self: gradients.Gradients, number: int, *rest: Any) -> Any:
        now[0] = number
        return compute(self, number, *rest)

    def poisoned(self: Model, module: Any, piece: Any, batch: Any) -> Tensor:
        found = loss(self, module, piece, batch)
        if (now[0], piece.share, piece.index) == (3, 0, 0):
            found.register_hook(lambda gradient: gradient * float("inf"))
        return found

    def alone(self: tree.ShareSums) -> Any:
        self._complete_all()
        for own in [*self._places[: self._open], self._flat]:
            own.nan_to_num_(0.0, 0.0, 0.0)
        return start(self)

    plant(gradients.Gradients, "compute", watched)
    plant(Model, "loss", poisoned)
    if decided == "alone":
        plant(tree.ShareSums, "start", alone)
    train(settings, run, *overrides)


overflow_decided_alone = functools.partial(overflow_in_share_0, decided="alone")
"""Each rank leaves out what is not finite on it, before the sum."""
