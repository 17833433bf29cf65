"""The tree: the same bits for any number of ranks, as many bytes as it says, and no rank hangs."""

from __future__ import annotations

import copy
import hashlib
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.data.plan import assign
from lightwork.errors import PeerLostError
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.tree import Node, Tree, tree
from tests.ranks import run_as_threads

SIZES = (1000, 3, 1, 37, 8)
"""Elements of the buckets; some have fewer than there are ranks."""


def gradients(share: int, size: int) -> Tensor:
    """Numbers of very different size, so that another order gives another sum."""
    generator = torch.Generator().manual_seed(1000 * share + size)
    numbers = torch.randn(size, generator=generator)
    return numbers * 10.0 ** torch.randint(-3, 4, (size,), generator=generator)


def reference(values: list[Tensor]) -> Tensor:
    """The definition, level by level from the leaves; a place without shares is passed over."""
    count, depth = len(values), (len(values) - 1).bit_length()
    level: list[Tensor | None] = [None] * 2**depth
    for place in range(2**depth):
        first, end = count * place // 2**depth, count * (place + 1) // 2**depth
        assert end - first <= 1
        level[place] = values[first] if end > first else None
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [a + b if a is not None and b is not None else b if a is None else a
                 for a, b in pairs]  # fmt: skip
    assert level[0] is not None
    return level[0]


def summed(group: Group, shares: int, without: tuple[int, ...] = ()) -> tuple[list[Tensor], int]:
    """Every bucket's sum as this rank gets it, twice over, and the bytes that it sent."""
    runs = assign(shares, group.size)
    strategy = Tree(group, runs)
    flats = [torch.empty(size) for size in SIZES]
    buckets = [strategy.open(flat) for flat in flats]
    for _ in range(2):  # nothing of the first step is left in the second
        pending = []
        for flat, bucket in zip(flats, buckets, strict=True):
            flat.zero_()
            bucket.begin()
            for share in runs[group.rank]:
                if share not in without:
                    bucket.reach(share)
                    flat.add_(gradients(share, flat.numel()))
            pending.append(bucket.start())
        sent_bytes = sum(transfer.wait().sent_bytes for transfer in pending)
    return flats, sent_bytes


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


@pytest.mark.parametrize("ranks", range(1, 10))
def test_every_rank_gets_the_tree_sum_to_the_bit(ranks: int) -> None:
    def check(group: Group) -> None:
        for shares in range(1, 9):  # also fewer than ranks
            sums, _ = summed(group, shares)
            for found, size in zip(sums, SIZES, strict=True):
                wanted = reference([gradients(share, size) for share in range(shares)])
                assert same_bits(found, wanted), (shares, size)

    run_as_threads(ranks, check)


def test_another_order_has_other_bits() -> None:
    """Otherwise the test above could not fail."""
    for shares in range(3, 9):
        values = [gradients(share, SIZES[0]) for share in range(shares)]
        in_order = values[0].clone()
        for value in values[1:]:
            in_order += value
        assert not same_bits(in_order, reference(values)), shares


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("without", [(0,), (7,), (2, 3, 6, 7), tuple(range(8))])
def test_shares_without_windows_are_zeros(ranks: int, without: tuple[int, ...]) -> None:
    for sums, _ in run_as_threads(ranks, lambda group: summed(group, 8, without)):
        for found, size in zip(sums, SIZES, strict=True):
            values = [
                torch.zeros(size) if share in without else gradients(share, size)
                for share in range(8)
            ]
            assert same_bits(found, reference(values))


@pytest.mark.parametrize(
    ("shares", "ranks", "times_ring"),
    [(8, 1, 0), (8, 2, 1), (8, 4, 1), (8, 8, 1), (24, 8, 1), (12, 4, 1), (6, 2, 1), (7, 4, 1),
     (3, 3, 1), (7, 7, 1), (8, 3, 4 / 3), (8, 5, 1.1)],
)  # fmt: skip
def test_bytes_against_the_ring(shares: int, ranks: int, times_ring: float) -> None:
    size_bytes = 4 * 1680  # what every number of ranks divides

    def count(group: Group) -> int:
        flat = torch.ones(1680)
        sums = Tree(group, assign(shares, ranks)).open(flat)
        sums.begin()
        return sums.start().wait().sent_bytes

    ring_bytes = 2 * (ranks - 1) * size_bytes
    assert sum(run_as_threads(ranks, count)) == pytest.approx(times_ring * ring_bytes)


@pytest.mark.parametrize("shares", [*range(1, 70), 255, 256, 1000, 4096])
def test_a_power_of_two_of_ranks_holds_one_subtree_each(shares: int) -> None:
    def spans(node: Node) -> list[range]:
        below = [span for half in node.halves or () for span in spans(half)]
        return [node.shares, *below]

    found = spans(tree(shares))
    assert len(found) == 2 * shares - 1
    assert all(found)
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        assert ranks > shares or set(assign(shares, ranks)) <= set(found)


class Net(nn.Module):
    """Tied weights, a layer that only share 4 uses, and one that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 6)
        self.first = nn.Linear(6, 6)
        self.late = nn.Linear(6, 6)
        self.never = nn.Linear(6, 6)
        self.out = nn.Linear(6, 13, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids: Tensor, with_late: bool) -> Tensor:
        hidden = torch.tanh(self.first(self.embed(ids)))
        if with_late:
            hidden = hidden + self.late(hidden)
        result: Tensor = self.out(hidden).square().sum()
        return result


torch.manual_seed(3)
NET = Net()
MICRO_BATCHES = [[[1, 2, 3], [5]], [[9, 4]], [], [[7, 7, 2], [0], [11]], [[12, 3]], []]
"""Of six shares; two are empty, one of them the last."""


def run(group: Group, bucket_bytes: int) -> tuple[str, list[tuple[str, ...]]]:
    """A digest of all gradients of four steps, and what was found to be unused."""
    model = copy.deepcopy(NET)
    hosted = assign(6, group.size)
    sync = GradientBuckets(Tree(group, hosted), bucket_bytes)
    sync.attach(model)
    digest, unused = hashlib.sha256(), []
    for step in range(4):
        again = True
        while again:
            sync.begin(measure=step == 1)
            pieces = [(s, ids) for s in hosted[group.rank] for ids in MICRO_BATCHES[s]]
            for number, (share, ids) in enumerate(pieces):
                with sync.micro_batch(share, last=number == len(pieces) - 1):
                    model(torch.tensor(ids), with_late=step > 1 and share == 4).backward()
            sync.finish()
            again = any(group.gather_json(sync.unsettled()))
            if again:
                settled = sync.settle(group)
                unused.append(tuple(sorted(settled.unused)))
                again = settled.repeat
        for name, parameter in model.named_parameters():
            digest.update(name.encode())
            if parameter.grad is not None:
                digest.update(parameter.grad.numpy().tobytes())
    return digest.hexdigest(), unused


def test_gradients_of_a_model_have_the_same_bits_however_ranks_and_buckets_are() -> None:
    whole = run(Group.alone(), 1 << 20)
    assert [len(names) for names in whole[1]] == [4, 2], "the late layer was found in step 3"
    for ranks in (1, 2, 3, 4, 5, 6, 7):
        for bucket_bytes in (1, 200, 1 << 20):
            for found in run_as_threads(ranks, partial(run, bucket_bytes=bucket_bytes)):
                assert found == whole, (ranks, bucket_bytes)


def test_after_a_new_start_what_took_part_before_gets_zeros_not_none() -> None:
    def resumed(group: Group) -> None:
        model = copy.deepcopy(NET)
        sync = GradientBuckets(Tree(group, assign(6, group.size)), 100)
        sync.attach(model)
        sync.go_on({"late.weight", "late.bias"})
        for _ in range(2):
            sync.begin(measure=False)
            if group.rank == 0:
                with sync.micro_batch(0, last=True):
                    model(torch.tensor([1, 2]), with_late=False).backward()
            sync.finish()
            if sync.unsettled():
                assert set(sync.settle(group).unused) == {"never.weight", "never.bias"}
            assert model.late.weight.grad is not None
            assert not model.late.weight.grad.any()
            assert model.never.weight.grad is None
            assert model.first.weight.grad is not None
            assert model.first.weight.grad.any()

    run_as_threads(2, resumed)


def test_own_norm_is_of_all_shares_of_this_rank_and_changes_nothing() -> None:
    def train(group: Group) -> float | None:
        model = nn.Linear(1, 1, bias=False)
        nn.init.ones_(model.weight)
        strategy = Tree(group, assign(6, 3))
        assert len(strategy.held[0]) == 2
        sync = GradientBuckets(strategy, 100)
        sync.attach(model)
        sync.begin(measure=True)
        for share in strategy.run:
            with sync.micro_batch(share, last=share % 2 == 1):
                model(torch.full((1, 1), 10.0**share)).sum().backward()
        own_norm = sync.finish().own_norm
        assert model.weight.grad is not None
        assert float(model.weight.grad) == 111111
        return own_norm

    assert run_as_threads(3, train) == [11, 1100, 110000]


@pytest.mark.parametrize("bad_share", [0, 2, 3])
def test_a_failure_in_backward_still_ends_the_step_for_all(bad_share: int) -> None:
    hosted = assign(6, 2)

    def train(group: Group) -> None:
        model = copy.deepcopy(NET)
        sync = GradientBuckets(Tree(group, hosted), 100)
        sync.attach(model)
        sync.begin(measure=False)
        for share in hosted[group.rank]:
            ids = torch.tensor([99 if share == bad_share else share])
            try:
                with sync.micro_batch(share, last=share == hosted[group.rank][-1]):
                    model(ids, with_late=False).backward()
            except IndexError:
                assert share == bad_share
                break
        sync.finish()
        again = run_of_one_bucket(group)
        assert again == 21, "the next messages are not mixed up with those of the failed step"

    run_as_threads(2, train, timeout_s=10)


def run_of_one_bucket(group: Group) -> float:
    flat = torch.zeros(5)
    strategy = Tree(group, assign(6, 2))
    sums = strategy.open(flat)
    sums.begin()
    for share in strategy.run:
        sums.reach(share)
        flat.add_(share + 1)
    sums.start().wait()
    return float(flat[4])


def test_a_rank_that_goes_away_is_noticed_by_all() -> None:
    def train(group: Group) -> str:
        if group.rank == 1:
            group.abort()
            return "gone"
        with pytest.raises(PeerLostError):
            run_of_one_bucket(group)
        return "noticed"

    assert run_as_threads(2, train, timeout_s=10) == ["noticed", "gone"]
