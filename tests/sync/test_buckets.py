"""Gradient buckets: sums are exact, overlap is real, and nothing stale is ever sent."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lightwork.comm.group import Group, Pending
from lightwork.sync.all_reduce import AllReduce, RankSums
from lightwork.sync.buckets import FIRST_BYTES, GradientBuckets
from lightwork.sync.contract import Reduction
from tests.ranks import run_as_threads


class Net(nn.Module):
    """Two layers, a tied output, a layer used only on request and one never used."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.first = nn.Linear(6, 6)
        self.late = nn.Linear(6, 6)
        self.never = nn.Linear(6, 6)
        self.out = nn.Linear(6, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids: Tensor, with_late: bool = False) -> Tensor:
        hidden = torch.tanh(self.first(self.embed(ids)))
        if with_late:
            hidden = hidden + self.late(hidden)
        result: Tensor = self.out(hidden).square().sum()
        return result


NET = Net().double()


def net() -> Net:
    """The same weights on every rank; drawn once, because threads share the random state."""
    return copy.deepcopy(NET)


def parts(rank: int) -> list[Tensor]:
    """Micro-batches of different number per rank; rank 2 has none."""
    return {0: [torch.tensor([1, 2, 3]), torch.tensor([3])], 1: [torch.tensor([9, 4])]}.get(
        rank, []
    )


def step(sync: GradientBuckets, model: nn.Module, rank: int, late: bool = False) -> None:
    sync.begin(measure=False)
    pieces = parts(rank)
    for number, ids in enumerate(pieces):
        with sync.micro_batch(0, last=number == len(pieces) - 1):
            model(ids, with_late=late and rank == 1).backward()
    sync.finish()


def expected(late: bool = False) -> dict[str, Tensor | None]:
    """The gradients of one process that sees everything."""
    model = net()
    for rank in range(3):
        for ids in parts(rank):
            model(ids, with_late=late and rank == 1).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def check(model: nn.Module, wanted: dict[str, Tensor | None]) -> None:
    for name, parameter in model.named_parameters():
        want = wanted[name]
        if want is None:
            assert parameter.grad is None, f"{name} was not used and must stay None"
        else:
            assert parameter.grad is not None, name
            torch.testing.assert_close(parameter.grad, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("bucket_bytes", [1, 300, 1 << 20])
def test_gradients_are_sums_over_steps_and_ranks(ranks: int, bucket_bytes: int) -> None:
    def train(group: Group) -> list[dict[str, Tensor | None]]:
        model = net()
        sync = GradientBuckets(AllReduce(group), bucket_bytes)
        assert sync.attach(model) is model
        seen = []
        for _ in range(3):
            if ranks == 1:
                sync.begin(measure=False)
                for rank in range(3):
                    for ids in parts(rank):
                        model(ids).backward()
                sync.finish()
            else:
                step(sync, model, group.rank)
            if sync.unsettled():
                sync.settle(group)
            seen.append({name: p.grad for name, p in model.named_parameters()})
            model.zero_grad()  # the user's habit; the next step must put the views back
        return seen

    wanted = expected()
    for seen in run_as_threads(ranks, train):
        for gradients in seen[-1:]:
            for name, gradient in gradients.items():
                want = wanted[name]
                assert (gradient is None) == (want is None), name
                if want is not None:
                    torch.testing.assert_close(gradient, want, rtol=1e-12, atol=1e-12)


def test_unused_parameters_are_named_once_keep_none_and_are_not_sent() -> None:
    def train(group: Group) -> tuple[tuple[str, ...], int, int]:
        model = net()
        sync = GradientBuckets(AllReduce(group), 1 << 20)
        sync.attach(model)
        before = sum(bucket.flat.numel() for bucket in sync.buckets)
        step(sync, model, group.rank)
        assert sync.unsettled()
        settled = sync.settle(group)
        assert not settled.repeat
        check(model, expected())
        step(sync, model, group.rank)
        assert not sync.unsettled()
        check(model, expected())
        after = sum(bucket.flat.numel() for bucket in sync.buckets)
        return settled.unused, before, after

    for unused, before, after in run_as_threads(3, train):
        assert set(unused) == {"late.weight", "late.bias", "never.weight", "never.bias"}
        assert before - after == 2 * (36 + 6)


def test_a_parameter_that_turns_up_late_on_one_rank_makes_all_repeat() -> None:
    def train(group: Group) -> None:
        model = net()
        sync = GradientBuckets(AllReduce(group), 200)
        sync.attach(model)
        step(sync, model, group.rank)
        sync.settle(group)
        step(sync, model, group.rank, late=True)
        assert sync.unsettled() == (group.rank == 1)
        settled = sync.settle(group)
        assert settled.repeat
        assert set(settled.unused) == {"never.weight", "never.bias"}
        step(sync, model, group.rank, late=True)
        assert not sync.unsettled()
        check(model, expected(late=True))

    run_as_threads(3, train)


class Recorder:
    """A strategy that notes how many gradients were ready when each message was sent."""

    name = "recorder"

    def __init__(self, ready: Callable[[], int]) -> None:
        self.ready = ready
        self.sent: list[int] = []

    def open(self, flat: Tensor) -> Reduction:
        return Noted(self, flat)


class Noted(RankSums):
    def __init__(self, recorder: Recorder, flat: Tensor) -> None:
        super().__init__(flat, Group.alone().all_reduce)
        self.recorder = recorder

    def start(self) -> Pending:
        self.recorder.sent.append(self.recorder.ready())
        return super().start()


def test_the_first_bucket_travels_before_half_of_backward() -> None:
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(10)])
    count = 0

    def note(_: Tensor) -> None:
        nonlocal count
        count += 1

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(note)
    strategy = Recorder(lambda: count)
    sync = GradientBuckets(strategy, bucket_bytes=4 * 72 * 2)
    sync.attach(model)
    for _ in range(2):
        count, strategy.sent = 0, []
        sync.begin(measure=False)
        with sync.micro_batch(0, last=False):
            model(torch.ones(2, 8)).sum().backward()
        assert strategy.sent == [], "nothing is final before the last micro-batch"
        count = 0
        with sync.micro_batch(0, last=True):
            model(torch.ones(2, 8)).sum().backward()
        assert len(strategy.sent) == len(sync.buckets) == 5
        assert strategy.sent[0] < 10
        sync.finish()
        if sync.unsettled():
            sync.settle(Group.alone())


def test_own_norm_is_of_this_rank_before_the_sum() -> None:
    def train(group: Group) -> tuple[float | None, float]:
        model = net()
        for ids in parts(group.rank):
            model(ids).backward()
        own = [p.grad for p in model.parameters() if p.grad is not None]
        norm = float(torch.cat([g.flatten() for g in own]).norm()) if own else 0.0
        model.zero_grad()
        sync = GradientBuckets(AllReduce(group), 100)
        sync.attach(model)
        sync.begin(measure=True)
        pieces = parts(group.rank)
        for number, ids in enumerate(pieces):
            with sync.micro_batch(0, last=number == len(pieces) - 1):
                model(ids).backward()
        return sync.finish().own_norm, norm

    for measured, norm in run_as_threads(3, train):
        assert measured == pytest.approx(norm)


def test_bytes_and_messages_are_counted() -> None:
    def train(group: Group) -> None:
        model = net()
        sync = GradientBuckets(AllReduce(group), 1 << 20)
        sync.attach(model)
        step(sync, model, group.rank)
        sync.settle(group)
        sync.begin(measure=False)
        result = sync.finish()
        assert result.messages == 1
        assert result.sent_bytes == 8 * (11 * 6 + 36 + 6)

    run_as_threads(2, train)


def test_a_failure_in_backward_still_ends_the_step_for_all() -> None:
    def train(group: Group) -> None:
        model = net()
        sync = GradientBuckets(AllReduce(group), 100)
        sync.attach(model)
        sync.begin(measure=False)
        if group.rank == 0:
            with pytest.raises(IndexError), sync.micro_batch(0, last=True):
                model(torch.tensor([99])).backward()
        else:
            with sync.micro_batch(0, last=True):
                model(torch.tensor([1])).backward()
        sync.finish()

    run_as_threads(2, train, timeout_s=10)


def test_mixed_dtypes_do_not_share_a_bucket() -> None:
    model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3).double(), nn.Linear(3, 3)])
    sync = GradientBuckets(AllReduce(Group.alone()), 1 << 20)
    sync.attach(model)
    assert [bucket.flat.dtype for bucket in sync.buckets] == [
        torch.float32,
        torch.float64,
        torch.float32,
    ]


@pytest.mark.parametrize("bucket_bytes", [1 << 10, 8 << 20])
def test_the_first_bucket_is_small_and_the_others_are_full(bucket_bytes: int) -> None:
    model = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(64)])  # 256 KiB each
    sync = GradientBuckets(AllReduce(Group.alone()), bucket_bytes)
    sync.attach(model)
    first, *others = [bucket.flat.nbytes for bucket in sync.buckets]
    assert first == max(256 << 10, min(FIRST_BYTES, bucket_bytes))
    assert max(others) == max(256 << 10, bucket_bytes)
    assert first + sum(others) == 64 * (256 << 10)
