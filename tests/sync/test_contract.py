"""What every strategy promises: the sum, equal on all ranks, for any size, kind and time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.comm.lane import LEAST_BYTES, MOST_BYTES
from lightwork.data.plan import assign
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.contract import Strategy
from lightwork.sync.ring import Ring
from lightwork.sync.tree import Tree
from tests.ranks import run_as_threads

SHARES = 5
STRATEGIES: dict[str, Callable[[Group], Strategy]] = {
    "all_reduce": AllReduce,
    "ring": Ring,
    "tree": lambda group: Tree(group, assign(SHARES, group.size)),
}
SIZES = (1, 2, 3, 7, 1000, LEAST_BYTES + 1, MOST_BYTES + 5)
"""Elements: fewer than ranks, no multiple of anything, several chunks."""
DTYPES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}


def of_rank(rank: int, size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(100 * rank + size)).double()


def sums(group: Group, way: str, dtype: torch.dtype) -> tuple[list[Tensor], int]:
    """Of every size, all under way at once and twice over; and the bytes sent in the second."""
    strategy = STRATEGIES[way](group)
    flats = [torch.zeros(size, dtype=dtype) for size in SIZES]
    buckets = [strategy.open(flat) for flat in flats]
    hosted = assign(SHARES, group.size)[group.rank]
    for _ in range(2):
        for flat, bucket in zip(flats, buckets, strict=True):
            flat.zero_()
            bucket.begin()
            bucket.reach(hosted.stop - 1)
            flat.add_(of_rank(group.rank, flat.numel()).to(dtype))
        pending = [bucket.start() for bucket in buckets]
        sent_bytes = sum(message.wait().sent_bytes for message in reversed(pending))
    return flats, sent_bytes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("way", STRATEGIES)
def test_the_sum_is_right_and_the_same_on_all_ranks(
    way: str, ranks: int, dtype: torch.dtype
) -> None:
    found = run_as_threads(ranks, lambda group: sums(group, way, dtype)[0])
    for number, size in enumerate(SIZES):
        wanted = torch.stack([of_rank(rank, size).to(dtype) for rank in range(ranks)]).double()
        close = partial(torch.testing.assert_close, rtol=DTYPES[dtype], atol=4 * DTYPES[dtype])
        close(found[0][number].double(), wanted.sum(0))
        for own in found[1:]:
            assert torch.equal(own[number], found[0][number]), "ranks would drift apart"


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_the_ring_sends_exactly_its_bytes(ranks: int) -> None:
    sent = [bytes_ for _, bytes_ in run_as_threads(ranks, lambda g: sums(g, "ring", torch.float32))]
    assert sum(sent) == 2 * (ranks - 1) * 4 * sum(SIZES)
    each = 2 * (ranks - 1) / ranks * 4 * sum(SIZES)
    assert all(own == pytest.approx(each, rel=0.01) for own in sent), "no rank sends more"


class Net(nn.Module):
    """Odd sizes, and a layer that is used last."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in ((3, 17), (17, 5), (5, 1))])

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = torch.tanh(layer(inputs))
        return inputs.sum()


def gradients(group: Group, way: str, overlap: bool, weights: dict[str, Tensor]) -> list[Tensor]:
    """After two steps; rank r has r micro-batches, so that rank 0 has none."""
    model = Net().double()
    model.load_state_dict(weights)
    sync = GradientBuckets(STRATEGIES[way](group), 300, overlap=overlap)
    sync.attach(model)
    hosted = assign(SHARES, group.size)[group.rank]
    for _ in range(2):
        sync.begin(measure=True)
        for micro_batch in range(group.rank):
            with sync.micro_batch(hosted[-1], last=micro_batch == group.rank - 1):
                model(inputs(group.rank, micro_batch)).backward()
        result = sync.finish()
        assert overlap or result.hidden_s == 0, "nothing travels during backward"
        if sync.unsettled():
            sync.settle(group)
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def inputs(rank: int, micro_batch: int) -> Tensor:
    return of_rank(rank + 10 * micro_batch, 12).view(4, 3)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("way", STRATEGIES)
def test_gradients_are_those_of_one_process(way: str, ranks: int, overlap: bool) -> None:
    alone = Net().double()
    weights = {name: tensor.clone() for name, tensor in alone.state_dict().items()}
    for rank in range(ranks):
        for micro_batch in range(rank):
            alone(inputs(rank, micro_batch)).backward()
    wanted = [p.grad for p in alone.parameters()]
    for found in run_as_threads(ranks, lambda g: gradients(g, way, overlap, weights)):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert all(math.isfinite(float(gradient.sum())) for gradient in wanted if gradient is not None)
