"""What is timed as computing alone must not send."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import torch
from torch import nn

from lightwork.assembly.bench_rounds import Silent
from lightwork.assembly.strategies import Chosen, gradient_sync
from lightwork.comm.group import Group
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.contract import GradientSync
from tests.ranks import run_as_threads


@contextmanager
def counted(group: Group) -> Iterator[list[int]]:
    """How many tensors are summed inside."""
    sent: list[int] = []
    real = group.all_reduce

    def all_reduce(tensor: torch.Tensor) -> object:
        sent.append(tensor.nbytes)
        return real(tensor)

    group.all_reduce = all_reduce  # type: ignore[method-assign, assignment]
    yield sent


def test_nothing_is_sent_where_computing_alone_is_timed() -> None:
    def rank(group: Group, silent: bool) -> int:
        with counted(group) as sent:
            sync = gradient_sync(
                Chosen("all_reduce", 2, 1 << 20), group, AllReduce(group), [], overlap=True
            )
            model = sync.attach(nn.Linear(3, 1))
            watched = cast(GradientSync, Silent(sync)) if silent else sync
            sync.begin(measure=False)
            with watched.micro_batch(0, last=True):
                model(torch.ones(1, 3)).sum().backward()
            sync.begin(measure=False)
            sync.finish()  # after whatever set out before
        return len(sent)

    assert run_as_threads(2, partial(rank, silent=True)) == [1, 1], "the last one alone"
    assert run_as_threads(2, partial(rank, silent=False)) == [2, 2], "and here it would be seen"
