"""The loader: the same steps from any start, for any number of ranks; errors cross the thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from lightwork.data.loader import Cutting, Loader, Position, Prefetch
from lightwork.data.plan import Windows, assign

LENGTHS = (np.arange(50) * 7 % 90 + 5).astype(np.int32)
WEIGHTS = np.linspace(0.5, 1.5, 50).astype(np.float32)
CUTTING = Cutting(seed=3, batch_size=8, shares=4, micro_batch_tokens=200, round_to=8)


def loader(rank: int, ranks: int) -> Loader:
    def collate(windows: Windows, padded: int) -> tuple[list[int], int]:
        return windows.tolist(), padded

    return Loader(LENGTHS, WEIGHTS, CUTTING, assign(CUTTING.shares, ranks)[rank], collate)


def test_a_resumed_loader_goes_on_with_the_next_batch() -> None:
    whole = [[p.tensors for p in w.pieces] for w in loader(0, 1).work(1, 20)]
    rest = [[p.tensors for p in w.pieces] for w in loader(0, 1).work(10, 20)]
    assert rest == whole[9:]
    assert loader(0, 1).batches_per_epoch == 7
    assert loader(0, 1).position(7) == Position(1, 0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_ranks_only_host_shares(ranks: int) -> None:
    alone = list(loader(0, 1).work(1, 14))
    together = [list(loader(rank, ranks).work(1, 14)) for rank in range(ranks)]
    for step, reference in enumerate(alone):
        pieces = [(p.share, p.index, p.tensors) for rank in together for p in rank[step].pieces]
        assert pieces == [(p.share, p.index, p.tensors) for p in reference.pieces]
        for rank in together:
            assert rank[step].batch_weight == reference.batch_weight
            assert rank[step].batch_windows == reference.batch_windows
        assert sum(r[step].real_tokens for r in together) == reference.real_tokens


def test_the_random_stream_depends_on_share_and_step_never_on_ranks() -> None:
    def seeds(ranks: int) -> list[int]:
        works = [list(loader(rank, ranks).work(1, 14)) for rank in range(ranks)]
        return [p.seed for step in range(14) for rank in works for p in rank[step].pieces]

    assert seeds(1) == seeds(2) == seeds(3)
    assert len(set(seeds(1))) == len(seeds(1))


def test_an_epoch_weighs_what_the_windows_weigh() -> None:
    total = sum(work.batch_weight for work in loader(0, 1).work(1, 7))
    assert total == pytest.approx(float(WEIGHTS.sum()))


def failing() -> Iterator[int]:
    yield 1
    raise ValueError("bad window")


def test_an_error_in_the_thread_is_raised_where_it_is_asked_for() -> None:
    with Prefetch(failing()) as items:
        iterator = iter(items)
        assert next(iterator) == 1
        with pytest.raises(ValueError, match="bad window"):
            next(iterator)


def test_leaving_early_ends_the_thread() -> None:
    before = threading.active_count()
    with Prefetch(iter(range(10**9))) as items:
        assert next(iter(items)) == 0
    assert threading.active_count() == before
