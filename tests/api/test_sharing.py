"""One order of batches for all ranks, the one that a single card has; each item exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from lightwork.api.sharing import SharedLoader, agree_on_order, part
from lightwork.comm.group import Group
from lightwork.errors import DataError
from tests.api.loop import run_of
from tests.ranks import run_as_threads

ITEMS = list(range(100, 117))


def epochs(loader: Any, count: int = 2) -> list[list[list[int]]]:
    return [[batch.tolist() for batch in loader] for _ in range(count)]


def make(**options: Any) -> DataLoader[Any]:
    return DataLoader(ITEMS, 5, **options)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"shuffle": False},
        {"shuffle": True, "drop_last": True},
        {"shuffle": True, "num_workers": 1},
        {"shuffle": True, "num_workers": 1, "persistent_workers": True},
    ],
)
@pytest.mark.parametrize("explicit", [True, False])
def test_alone_the_batches_are_those_of_the_plain_loader(
    options: dict[str, Any], explicit: bool
) -> None:
    def draw(shared: bool) -> tuple[list[list[list[int]]], float]:
        torch.manual_seed(5)
        generator = torch.Generator().manual_seed(9) if explicit else None
        loader: Any = make(generator=generator, **options)
        loader = run_of(Group.alone()).share(loader) if shared else loader
        assert len(loader) == (3 if options.get("drop_last") else 4)
        return epochs(loader), float(torch.rand(1, generator=generator))

    plain = draw(shared=False)
    assert draw(shared=True) == plain, "the order, and what is drawn afterwards"
    if options["shuffle"]:
        assert plain[0][0] != plain[0][1]


def seen(group: Group, training: bool) -> list[tuple[list[list[int]], list[bool]]]:
    """Batches and whether they were fillers, for two epochs on this rank."""
    run = run_of(group)
    # every rank's generator is in another state: only rank 0's counts
    loader = make(shuffle=True, generator=torch.Generator().manual_seed(9 + group.rank))
    shared = run.share(loader, training=training)
    found = []
    for _ in range(2):
        fillers: list[bool] = []
        batches = []
        for batch in shared:
            batches.append(batch.tolist())
            fillers.append(run._filler)
        found.append((batches, fillers))
    return found


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_the_parts_of_all_ranks_make_the_batches_of_one(ranks: int) -> None:
    wanted = epochs(make(shuffle=True, generator=torch.Generator().manual_seed(9)))
    found = run_as_threads(ranks, lambda group: seen(group, training=True))
    for epoch, batches in enumerate(wanted):
        for number, batch in enumerate(batches):
            parts = [(rank[epoch][0][number], rank[epoch][1][number]) for rank in found]
            assert [i for own, filler in parts if not filler for i in own] == batch
            assert all(own == batch[:1] for own, filler in parts if filler)
            sizes = [0 if filler else len(own) for own, filler in parts]
            assert max(sizes) - min(sizes) <= 1
        assert len(batches[-1]) == 2  # so with 3 ranks there are fillers


def test_in_evaluation_each_item_comes_once_and_nobody_gets_a_filler() -> None:
    found = run_as_threads(7, lambda group: seen(group, training=False))
    for epoch in range(2):
        items = [item for rank in found for batch in rank[epoch][0] for item in batch]
        assert sorted(items) == ITEMS
    assert not any(flag for rank in found for _, fillers in rank for flag in fillers)


def test_a_filler_batch_stays_one_after_the_loop_was_left() -> None:
    def last(group: Group) -> tuple[list[int], bool]:
        run = run_of(group)
        batch = next(iter(run.share(make(sampler=[3, 4]))))
        return batch.tolist(), run._filler

    assert run_as_threads(3, last) == [([103], True), ([103], False), ([104], False)]


def test_parts_are_contiguous_and_complete() -> None:
    for length in range(1, 12):
        for ranks in range(1, 6):
            batch = list(range(length))
            parts = [part(batch, rank, ranks) for rank in range(ranks)]
            assert [item for own in parts for item in own] == batch
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_sampler_of_ones_own_is_asked_on_rank_0_only() -> None:
    asked: list[int] = []

    class Epochs:
        def __init__(self, rank: int) -> None:
            self.rank, self.epoch = rank, 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[list[int]]:
            asked.append(self.rank)
            yield [self.epoch, 1, 2]
            yield [3]

        def __len__(self) -> int:
            return 2

    def train(group: Group) -> list[list[int]]:
        loader: DataLoader[Any] = DataLoader(ITEMS, batch_sampler=Epochs(group.rank))  # type: ignore[arg-type]
        shared = run_of(group).share(loader)
        shared.batch_sampler.set_epoch(4)  # type: ignore[union-attr]
        return [batch.tolist() for batch in shared]

    assert run_as_threads(2, train) == [[[104], [103]], [[101, 102], [103]]]
    assert asked == [0]


def test_workers_of_different_ranks_are_seeded_apart() -> None:
    def seed(group: Group) -> int:
        generator = torch.Generator().manual_seed(3)
        inner = run_of(group).share(make(generator=generator))._inner
        assert inner.generator is not None
        return int(inner.generator.initial_seed())

    seeds = run_as_threads(3, seed)
    assert len(set(seeds)) == 3
    assert seeds[0] == 3


def test_data_sets_of_different_lengths_are_refused_on_all_ranks() -> None:
    def train(group: Group) -> str:
        loader: DataLoader[Any] = DataLoader(ITEMS[group.rank :], 4)  # type: ignore[arg-type]
        with pytest.raises(DataError) as caught:
            next(iter(run_of(group).share(loader)))
        return str(caught.value)

    first, second = run_as_threads(2, train)
    assert first == second
    assert first.startswith("rank 1 has a data set of 16 items and rank 0 one of 17.")


@pytest.mark.parametrize(
    ("batches", "kind", "words"),
    [
        ([[(1, 2)]], TypeError, "lists of whole numbers"),
        ([["a"]], TypeError, "lists of whole numbers"),
        ([[1], []], ValueError, "an empty batch"),
    ],
)
def test_batches_that_are_not_of_positions_are_refused_on_all_ranks(
    batches: list[Any], kind: type[Exception], words: str
) -> None:
    def list_them(group: Group) -> None:
        with pytest.raises(kind if group.rank == 0 else DataError, match=words):
            agree_on_order(group, batches, 17)

    run_as_threads(2, list_them)


def test_an_epoch_without_batches_is_one() -> None:
    assert agree_on_order(Group.alone(), [], 0) == []


class _Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(ITEMS)


class _OwnLoader(DataLoader[Any]):
    def __iter__(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (ITEMS, "takes a torch.utils.data.DataLoader, not list"),
        (DataLoader(_Stream(), 4), "cannot share an IterableDataset"),
        (DataLoader(ITEMS, batch_size=None), "batch_size=None"),  # type: ignore[arg-type]
        (_OwnLoader(ITEMS, 4), "iterates in a way of its own"),  # type: ignore[arg-type]
        (
            make(sampler=DistributedSampler(ITEMS, 2, 0)),  # type: ignore[arg-type]
            "divided twice",
        ),
        (run_of(Group.alone()).share(make()), "shared already"),
    ],
)
def test_what_cannot_be_shared(loader: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        run_of(Group.alone()).share(loader)


def test_the_loader_keeps_its_options() -> None:
    def join(rows: list[int]) -> list[int]:
        return rows

    loader = make(collate_fn=join, num_workers=1, prefetch_factor=3, timeout=9.0)
    shared = run_of(Group.alone()).share(loader)
    assert isinstance(shared, SharedLoader)
    inner = shared._inner
    assert (inner.collate_fn, inner.num_workers, inner.prefetch_factor, inner.timeout) == (
        join, 1, 3, 9.0,
    )  # fmt: skip
    assert shared.batch_size == 5
    assert shared.dataset is loader.dataset
    assert shared.sampler is loader.sampler
