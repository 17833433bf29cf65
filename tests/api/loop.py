"""A small model and a loop around it, as a person writes one and as it becomes with a Run."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from lightwork.api import Run
from lightwork.comm.group import Group
from tests.sync.test_buckets import Net

NET = Net().double().eval()  # evaluating: ranks that are threads share one random state
ITEMS = [[1, 2, 3], [4], [5, 6], [7], [8, 9], [10, 1, 1, 2], [3]]
ROWS = [torch.tensor([1, 2, 3]), torch.tensor([9])]


def net() -> Net:
    """The same weights each time it is called; ``late`` and ``never`` get no gradient."""
    return copy.deepcopy(NET)


def run_of(group: Group, bucket_bytes: int = 300, rows: str = "auto") -> Run:
    """A Run of a group that is open already."""
    return Run(group, torch.device("cpu"), bucket_bytes, ExitStack(), rows)


def loader(batch_size: int = 3, **options: Any) -> DataLoader[Any]:
    """Batches of ITEMS as lists of tensors; the seventh item is alone in the last batch of 3."""
    options.setdefault("shuffle", True)
    options.setdefault("generator", torch.Generator().manual_seed(7))
    return DataLoader(
        ITEMS,  # type: ignore[arg-type]
        batch_size,
        collate_fn=lambda rows: [torch.tensor(row) for row in rows],
        **options,
    )


def loss_of(model: nn.Module, rows: list[Tensor], late: bool = False) -> tuple[Tensor, int]:
    """The summed loss and the number of tokens, which differs from row to row."""
    losses = [model(row, with_late=late) for row in rows]
    return torch.stack(losses).sum(), sum(len(row) for row in rows)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)


def plain(epochs: int) -> tuple[list[float], dict[str, Tensor]]:
    """The losses and weights of the plain loop."""
    model, batches, losses = net(), loader(), []
    optimizer = adam(model)
    for _ in range(epochs):
        for rows in batches:
            optimizer.zero_grad()
            loss_sum, count = loss_of(model, rows)
            loss = loss_sum / count
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    return losses, model.state_dict()


def shared(group: Group, epochs: int) -> tuple[list[float], dict[str, Tensor]]:
    """The same loop with a Run."""
    run, model, losses = run_of(group), net(), []
    optimizer = adam(model)
    run.replicate(model)
    batches = run.share(loader())
    for _ in range(epochs):
        for rows in batches:
            optimizer.zero_grad()
            loss_sum, count = loss_of(model, rows)
            losses.append(run.backward(loss_sum, count))
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            run.step(optimizer)
    return losses, model.state_dict()
