"""The gradient of all ranks together against that of one rank, computed in the plainest way."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from lightwork.data.plan import EpochPlan, Windows
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.verdict import RowFailedError, Verdict, counted, gathered

GRADIENTS = "gradients"

ALLOWED = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 2e-2}
"""Relative error of a gradient or a loss, by the precision of forward and backward."""


def gradients(subject: Subject, trainee: Trainee) -> Verdict:
    """Two consecutive batches, the second one the last of the epoch: no dropout, no clipping.

    Relative error: the norm of the difference over all parameters together, divided by the norm of
    the gradient on one rank. Parameters are not judged one by one: those whose true gradient is
    zero, such as the biases of keys, hold nothing but rounding.
    """
    trainee.model.module.eval()  # as a run computes, but without any randomness
    found, worst = [], 0.0
    allowed = ALLOWED[subject.precision]
    for step in (trainee.first_step, trainee.first_step + 1):
        windows = _batch(subject, trainee, step)
        for rank, (error, name) in enumerate(_errors(subject, trainee, step, windows)):
            if not error <= allowed:
                raise RowFailedError(
                    f"relative error {error:.1e} in step {step} on rank {rank}, allowed "
                    f"{allowed:g}; most of it in {name}, batch of {len(windows)} windows"
                )
            worst = max(worst, error)
        found.append(len(windows))
    return Verdict(
        GRADIENTS,
        True,
        f"relative error {worst:.1e}, allowed {allowed:g}: {counted(subject.group.size, 'rank')} "
        f"against a plain loop over single windows, batches of {found[0]} and {found[1]}"
        f"{_instead(subject)}",
    )


def _instead(subject: Subject) -> str:
    used, own = subject.cutting.batch_size, subject.batch_size
    return "" if used == own else f" (instead of train.batch_size {own})"


def _batch(subject: Subject, trainee: Trainee, step: int) -> Windows:
    """The windows of a step, straight from the plan of its epoch: shares and ranks unknown."""
    cutting = subject.cutting
    epoch, batch = divmod(step - 1, trainee.loader.batches_per_epoch)
    plan = EpochPlan(cutting.seed, epoch, subject.train.column("tokens"), cutting.batch_size)
    return plan.batch(batch)


def _errors(
    subject: Subject, trainee: Trainee, step: int, windows: Windows
) -> list[tuple[float, str]]:
    """The relative error on every rank, and the parameter that has most of it."""
    group, module = subject.group, trainee.model.module

    def learn_nothing() -> None:
        module.zero_grad()  # as people and libraries do: gradients must find their way back
        trainee.step(step, 0.0)

    gathered(group, learn_nothing)
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    reference = {
        name: torch.zeros_like(p, memory_format=torch.contiguous_format)
        for name, p in named.items()
    }
    gathered(
        group, lambda: _add_up(subject, trainee, windows, reference) if not group.rank else None
    )
    for tensor in reference.values():
        group.broadcast(tensor).wait()
    told = gathered(group, lambda: _compared({n: p.grad for n, p in named.items()}, reference))
    return [(float(error), name) for error, name in told]


def _add_up(subject: Subject, trainee: Trainee, windows: Windows, total: dict[str, Tensor]) -> None:
    """The gradient of the mean loss of ``windows``, one after the other, none of them padded.

    No buckets, no shares, and no loss of more than one window: nothing but the model and torch.
    """
    model, task, store = trainee.model, trainee.model.task, subject.train
    names = dict(model.module.named_parameters())
    parameters = [names[name] for name in total]
    weight = float(store.column("weight")[windows].sum(dtype=np.float64))
    for window in windows:
        tokens = int(store.column("tokens")[window])
        batch = model.on_device(task.collate(store, np.array([window], np.int32), tokens))
        with model.precision.computing():
            loss = task.loss(task.forward(model.module, batch), batch) / weight
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for tensor, gradient in zip(total.values(), found, strict=True):
            if gradient is not None:
                tensor.add_(gradient)


def _compared(
    gradients: dict[str, Tensor | None], reference: dict[str, Tensor]
) -> tuple[float, str]:
    """(relative error over all parameters, name of the one that differs most)."""
    differences = {
        name: _norm(tensor if (own := gradients[name]) is None else own - tensor)
        for name, tensor in reference.items()
    }
    norm = _total(_norm(tensor) for tensor in reference.values())
    if norm == 0:
        raise ValueError("the gradient on one rank is zero, so there is nothing to compare with")
    return _total(differences.values()) / norm, max(differences, key=differences.__getitem__)


def _norm(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))


def _total(norms: Iterable[float]) -> float:
    return float(np.sqrt(sum(norm**2 for norm in norms)))
