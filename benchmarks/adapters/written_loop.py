"""The parts that a person who writes the training loop brings along, with whichever library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
)
from transformers.trainer_pt_utils import LengthGroupedSampler

from benchmarks.adapters.features import Features, WindowData, longest_first
from benchmarks.adapters.spec import Spec

LOWEST = -100.0
"""Fills logits up to a common length; no answer lies there."""


@dataclass(frozen=True)
class Parts:
    """Everything a loop needs, not yet given to any library."""

    model: nn.Module
    optimizer: AdamW
    schedule: Any
    train: DataLoader[Any]
    """Batches of one rank in batches of similar lengths."""
    dev: DataLoader[Any] | None
    dev_features: Features | None
    """In the order of ``dev``: longest first."""


def build(spec: Spec) -> Parts:
    """The same on every rank: also the order of the windows, which the libraries deal out."""
    model = AutoModelForQuestionAnswering.from_pretrained(spec.model)
    collator = DataCollatorWithPadding(
        AutoTokenizer.from_pretrained(spec.model), pad_to_multiple_of=spec.pad_to_multiple_of
    )
    train = Features.load(spec.train_windows)
    sampler = LengthGroupedSampler(
        spec.batch_size,  # its pools are 50 of these; the Trainer gives it a rank's batch instead
        lengths=train.lengths.tolist(),
        generator=torch.Generator().manual_seed(spec.seed),
    )
    workers: dict[str, Any] = {"num_workers": spec.workers, "persistent_workers": spec.workers > 0}
    optimizer = _adamw(model, spec)
    dev, features = None, None
    if spec.whole:
        features = Features.load(spec.dev_windows)
        features = features.only(longest_first(features))
        data = WindowData(features, labels=False)
        dev = DataLoader(data, spec.eval_batch, collate_fn=collator, num_workers=spec.workers)
    return Parts(
        model=model,
        optimizer=optimizer,
        schedule=get_linear_schedule_with_warmup(optimizer, 0, spec.steps),
        train=DataLoader(
            WindowData(train, labels=True),
            spec.rank_batch,
            sampler=sampler,
            collate_fn=collator,
            **workers,
        ),
        dev=dev,
        dev_features=features,
    )


def _adamw(model: nn.Module, spec: Spec) -> AdamW:
    """Fused; biases and norms do not decay, as in the Trainer."""
    decaying = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": decaying, "weight_decay": spec.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=spec.learning_rate, fused=True)


def batches(spec: Spec, loader: Any) -> Iterator[tuple[int, Any]]:
    """``(step, batch)`` over all epochs, from step 1 to the last."""
    step = 0
    for _ in range(spec.epochs):
        for batch in loader:
            step += 1
            yield step, batch
            if step == spec.steps:
                return


def dev_logits(
    model: nn.Module, loader: Any, max_length: int, gather: Callable[[Tensor], Tensor]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Start and end logits ``[windows, max_length]`` of all ranks, in the order of the data.

    ``gather`` takes ``[rows, 2, max_length]`` of this rank and gives all ranks' rows in order.
    """
    model.eval()
    found = []
    with torch.inference_mode():
        for batch in loader:
            outputs = model(**batch)
            logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=1)
            logits = pad(logits, (0, max_length - logits.shape[2]), value=LOWEST)
            found.append(gather(logits).cpu().numpy())
    both = np.concatenate(found)
    return both[:, 0], both[:, 1]
