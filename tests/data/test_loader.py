"""The loader: the same steps from any start, for any number of ranks; errors cross the thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

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


def seen(epoch: int, first: int, last: int, ranks: int) -> list[int]:
    """The windows of batches ``first`` … ``last - 1`` of an epoch, over all ranks, in order."""
    per_epoch = loader(0, 1).batches_per_epoch
    steps = range(epoch * per_epoch + first + 1, epoch * per_epoch + last + 1)
    if not steps:
        return []
    works = [list(loader(rank, ranks).work(steps[0], steps[-1])) for rank in range(ranks)]
    return [w for step in range(len(steps)) for work in works for w in work[step].windows]


@pytest.mark.parametrize("stop", range(8))
def test_a_stop_anywhere_loses_and_repeats_no_window(stop: int) -> None:
    """Also at the end of an epoch, after which the next one begins, in an order of its own."""
    whole = loader(0, 1).batches_per_epoch
    before, after = seen(1, 0, stop, ranks=2), seen(1, stop, whole, ranks=3)
    assert sorted(before + after) == list(range(len(LENGTHS)))
    assert loader(0, 1).position(whole + stop) == Position(1 + stop // whole, stop % whole)
    orders = [tuple(seen(epoch, 0, whole, 1)) for epoch in range(3)]
    assert len(set(orders)) == 3


@pytest.mark.shared
def test_the_shared_case_of_a_resume_in_an_epoch(shared: Path) -> None:
    """Their numbers with our order: used once, nothing missing, and the next epoch its own."""
    case = shared / "cases/37-resume-in-the-middle-of-an-epoch"
    given = json.loads((case / "input.json").read_bytes())
    expected = json.loads((case / "expect.json").read_bytes())
    size, ranks = given["dataset"], given["world"]
    batch, saved = given["batch_per_rank"] * ranks, given["saved_at"]
    cutting = Cutting(seed=3, batch_size=batch, shares=ranks, micro_batch_tokens=999, round_to=1)
    lengths, ones = np.ones(size, np.int32), np.ones(size, np.float32)

    def lists(first: int, last: int) -> list[list[list[int]]]:
        loaders = [
            Loader(lengths, ones, cutting, hosted, lambda w, _: w.tolist())
            for hosted in assign(ranks, ranks)
        ]
        return [[work.windows for work in one.work(first, last)] for one in loaders]

    per_epoch = -(-size // batch)
    done = saved["epoch"] * per_epoch + saved["batches_done_in_epoch"]
    epoch, rest = lists(per_epoch + 1, 2 * per_epoch), lists(done + 1, 2 * per_epoch)
    used = lists(per_epoch + 1, done)
    sizes = [[len(windows) for windows in rank] for rank in expected["rest_of_epoch1"]]
    assert [[len(windows) for windows in rank] for rank in rest] == sizes
    assert [len(rank[0]) for rank in used] == [len(rank) for rank in expected["already_used"]]
    for mine, first, second in zip(epoch, used, rest, strict=True):
        assert first + second == mine, "as if it had not been stopped"
    flat = [window for part in (used, rest) for rank in part for work in rank for window in work]
    assert sorted(flat) == list(range(size))
    following = lists(2 * per_epoch + 1, 3 * per_epoch)
    assert following != epoch
    assert sorted(w for rank in following for work in rank for w in work) == list(range(size))
