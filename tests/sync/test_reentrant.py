"""Backward in pieces, which comes back to a parameter: no part of its gradient is lost."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lightwork.comm.group import Group
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from tests.ranks import run_as_threads


class Twice(nn.Module):
    """One layer in two pieces of backward, and one above it that is ready first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3, bias=False).double()
        self.top = nn.Linear(3, 3, bias=False).double()

    def forward(self, x: Tensor, reentrant: bool) -> Tensor:
        for _ in range(2):
            x = checkpoint(self.layer, x, use_reentrant=reentrant)
        total: Tensor = self.top(x).sum()
        return total


def gradient_of_twice(
    group: Group, reentrant: bool, overlap: bool, weights: dict[str, Tensor], bucket_bytes: int
) -> Tensor:
    model = Twice()
    model.load_state_dict(weights)
    sync = GradientBuckets(AllReduce(group), bucket_bytes, overlap=overlap)
    sync.attach(model)
    sync.begin(measure=False)
    x = torch.full((1, 3), 1.0 + group.rank, dtype=torch.float64, requires_grad=True)
    try:
        with sync.micro_batch(0, last=True):
            model(x, reentrant).backward()
    finally:
        sync.finish()
    assert model.layer.weight.grad is not None
    return model.layer.weight.grad


@pytest.mark.parametrize("bucket_bytes", [1, 1 << 20])
def test_a_gradient_that_comes_after_its_sum_left_is_never_lost(bucket_bytes: int) -> None:
    weights = Twice().state_dict()
    whole = Twice()
    whole.load_state_dict(weights)
    for rank in range(2):
        x = torch.full((1, 3), 1.0 + rank, dtype=torch.float64)
        whole(x, False).backward()
    wanted = whole.layer.weight.grad
    for reentrant, overlap in ((False, True), (True, False)):
        of = partial(gradient_of_twice, reentrant=reentrant, overlap=overlap, weights=weights)
        for found in run_as_threads(2, partial(of, bucket_bytes=bucket_bytes)):
            torch.testing.assert_close(found, wanted)
    with pytest.raises(RuntimeError, match=r"layer\.weight got a gradient again .* use_reentrant"):
        run_as_threads(
            2, partial(gradient_of_twice, reentrant=True, overlap=True, weights=weights,
                       bucket_bytes=bucket_bytes),
        )  # fmt: skip
