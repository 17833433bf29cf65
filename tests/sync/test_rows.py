"""Of a table only the touched rows travel, and every sum is what it would be without that."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.data.plan import assign
from lightwork.errors import PeerLostError, StepError
from lightwork.sync import rows
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.contract import Strategy
from lightwork.sync.rows import Touched
from lightwork.sync.tree import Tree
from lightwork.train.optimizer import AdamWOptions, LocalUpdate
from tests.ranks import run_as_threads

WORDS, WIDTH, SHARES = 40, 3, 5
BATCHES: list[list[list[list[int]]]] = [
    [[[1, 2, 3], [5, 5]], [[9, 4]], [], [[7, 7, 2]], [[12, 3]]],
    [[[1]], [], [], [], []],
    [[[30, 31]], [[30]], [[32], [33]], [[1, 39]], []],
    [[list(range(share, WORDS, 2))] for share in range(SHARES)],  # too many to be worth it
]
"""Step by step, of every share its micro-batches."""
WAYS: dict[str, Callable[[Group], Strategy]] = {
    "all_reduce": AllReduce,
    "tree": lambda group: Tree(group, assign(SHARES, group.size)),
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = torch.tanh(self.out(self.embed(ids))).square().sum()
        return result


@pytest.fixture(autouse=True)
def small_tables_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LEAST_BYTES", 0)


torch.manual_seed(5)
NET = Net()
Found = tuple[list[dict[str, Tensor]], list[int], list[float]]
"""Of every step: gradients, bytes sent, this rank's own norm."""


def touched(batch: list[list[list[int]]]) -> Tensor:
    words = {word for share in batch for ids in share for word in ids}
    return torch.tensor(sorted(words))


def steps(
    group: Group, way: str, table: str | None, bucket_bytes: int = 1 << 20, always: bool = False
) -> Found:
    model = copy.deepcopy(NET)
    tables = [] if table is None else [Touched(table, group, always)]
    sync = GradientBuckets(WAYS[way](group), bucket_bytes, tables)
    sync.attach(model)
    gradients, sent, norms = [], [], []
    for batch in BATCHES:
        sync.begin(measure=True, rows=touched(batch))
        hosted = assign(SHARES, group.size)[group.rank]
        pieces = [(share, ids) for share in hosted for ids in batch[share]]
        for number, (share, ids) in enumerate(pieces):
            with sync.micro_batch(share, last=number == len(pieces) - 1):
                model(torch.tensor(ids)).backward()
        result = sync.finish()
        sent.append(result.sent_bytes)
        norms.append(result.own_norm or 0.0)
        gradients.append(
            {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        )
        if sync.unsettled():
            sync.settle(group)
    return gradients, sent, norms


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("bucket_bytes", [1, 1 << 20])
def test_sums_are_those_of_the_whole_table(way: str, ranks: int, bucket_bytes: int) -> None:
    def both(group: Group) -> tuple[Found, Found]:
        dense = steps(group, way, None, bucket_bytes)
        return steps(group, way, "embed.weight", bucket_bytes), dense

    for (packed, sent, norms), (dense, _, dense_norms) in run_as_threads(ranks, both):
        for ours, theirs in zip(packed, dense, strict=True):
            for name, gradient in ours.items():
                if way == "tree":
                    assert torch.equal(gradient, theirs[name]), "the tree promises every bit"
                torch.testing.assert_close(gradient, theirs[name])
        assert norms == pytest.approx(dense_norms)
        assert ranks == 1 or sent[1] < sent[0] < sent[3]


def test_what_travels_is_the_touched_rows_or_all_where_they_are_many() -> None:
    found = run_as_threads(2, lambda group: steps(group, "all_reduce", "embed.weight"))
    rest = 4 * (WIDTH * 2 + 2)
    for _, sent, _ in found:
        words = [len(touched(batch)) for batch in BATCHES[:3]] + [WORDS]
        assert sent == [4 * WIDTH * count + rest for count in words]


def test_a_small_table_travels_whole_and_with_always_its_rows_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "LEAST_BYTES", 4 * WORDS * WIDTH + 1)
    rest = 4 * (WIDTH * 2 + 2)
    for always in (False, True):
        how = partial(steps, way="all_reduce", table="embed.weight", always=always)
        words = [len(touched(batch)) if always else WORDS for batch in BATCHES]
        for _, sent, _ in run_as_threads(2, how):
            assert sent == [4 * WIDTH * count + rest for count in words]


def test_that_it_pays_is_decided_by_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.zeros(10, 4)
    assert [rows.pays(count, table) for count in (0, 5, 6)] == [True, True, False]
    monkeypatch.setattr(rows, "LEAST_BYTES", 161)
    assert not rows.pays(1, table)


def test_without_knowledge_of_the_rows_all_travel() -> None:
    def bytes_sent(group: Group) -> int:
        sync = GradientBuckets(AllReduce(group), 1 << 20, [Touched("embed.weight", group)])
        sync.attach(copy.deepcopy(NET))
        sync.begin(measure=False)
        return sync.finish().sent_bytes

    assert run_as_threads(2, bytes_sent) == [4 * sum(p.numel() for p in NET.parameters())] * 2


def test_a_gradient_in_another_row_is_an_error_and_nobody_waits() -> None:
    def train(group: Group) -> str:
        model = copy.deepcopy(NET)
        sync = GradientBuckets(AllReduce(group), 1 << 20, [Touched("embed.weight", group)])
        sync.attach(model)
        sync.begin(measure=False, rows=torch.tensor([1, 2]))
        with sync.micro_batch(0, last=True):
            model(torch.tensor([1, 2 + group.rank])).backward()
        try:
            sync.finish()
        except StepError as error:
            return f"{error.joint}: {error}"
        except PeerLostError:
            return "lost"
        return "fine"

    fine, wrong = run_as_threads(2, train)
    assert fine == "fine"
    assert wrong.startswith("False: ")
    assert "set sync.rows=off" in wrong


def test_the_table_stands_alone_however_small_it_is() -> None:
    sync = GradientBuckets(
        AllReduce(Group.alone()), 1 << 20, [Touched("embed.weight", Group.alone())]
    )
    sync.attach(copy.deepcopy(NET))
    assert [len(bucket.parameters) for bucket in sync.buckets] == [2, 1]


def test_ranks_that_mean_other_rows_all_know_before_anything_is_sent() -> None:
    def train(group: Group) -> str:
        sync = GradientBuckets(AllReduce(group), 1 << 20, [Touched("embed.weight", group)])
        sync.attach(copy.deepcopy(NET))
        sync.begin(measure=False, rows=torch.tensor([1, 2 + group.rank]))
        with pytest.raises(StepError) as caught:
            sync.finish()
        return str(caught.value)

    for said in run_as_threads(2, train):
        assert said.startswith("the ranks do not read the same batch")


RARE = torch.tensor([35, 36, 37])
"""Read in the first step and never again: only their moments and their decay move them."""


def test_rows_that_are_read_once_learn_as_with_the_whole_table() -> None:
    def train(group: Group, rows_travel: bool) -> tuple[list[Tensor], dict[str, Tensor]]:
        model = copy.deepcopy(NET)
        tables = [Touched("embed.weight", group)] if rows_travel else []
        sync = GradientBuckets(AllReduce(group), 64, tables)
        sync.attach(model)
        update = LocalUpdate(model, AdamWOptions(0.9, 0.999, 1e-8, 0.5, 1.0))
        seen = []
        for step in range(12):
            words = RARE if step == 0 else torch.tensor([1, 2 + step % 5, 11])
            sync.begin(measure=False, rows=words)
            with sync.micro_batch(0, last=True):
                model(words[group.rank :]).backward()
            sync.finish()
            if sync.unsettled():
                sync.settle(group)
            update.apply(0.01, update.measure(1.0))
            seen.append(model.embed.weight.detach().clone())
        return seen, {name: part.clone() for name, part in update.parts().items()}

    def both(group: Group) -> None:
        (packed, parts), (whole, whole_parts) = train(group, True), train(group, False)
        for step, (ours, theirs) in enumerate(zip(packed, whole, strict=True)):
            torch.testing.assert_close(ours, theirs, msg=f"step {step}")
        assert not torch.equal(whole[0][RARE], whole[-1][RARE]), "they go on moving"
        for name, part in whole_parts.items():
            torch.testing.assert_close(parts[name], part, msg=name)
        assert parts["embed.weight/exp_avg"][RARE].any(), "and so do their moments"

    run_as_threads(3, both)
