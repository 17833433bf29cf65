"""The plan of a large set: batches fixed for ever, few bytes a window, late epochs as cheap."""

from __future__ import annotations

import hashlib
import itertools
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from lightwork.data import loader as loader_module
from lightwork.data import streams
from lightwork.data.loader import Cutting, Loader
from lightwork.data.plan import EpochPlan, assign
from lightwork.data.streams import shuffled, stream_keys

WINDOWS = 200_000


def lengths_of(count: int, most: int = 304) -> NDArray[np.int32]:
    numbers = np.arange(count, dtype=np.int64)
    return ((numbers * numbers * 31 + numbers * 7) % (most - 4) + 5).astype(np.int32)


def plan_digest(count: int, batch: int, seed: int, epoch: int, most: int) -> str:
    digest = hashlib.sha256()
    for windows in EpochPlan(seed, epoch, lengths_of(count, most), batch):
        digest.update(windows.astype("<i4").tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize(
    ("shape", "digest"),
    [
        ((7, 3, 1, 0, 304), "65a288045d7fb8b9"),
        ((1000, 32, 42, 0, 304), "070a48f2e99b5140"),
        ((1000, 32, 42, 1, 304), "adaf3b3c0158de35"),
        ((1000, 999, 42, 7, 304), "9b69301fb9b3404f"),
        ((100_003, 64, 42, 0, 304), "4797c9a5192833de"),
        ((100_003, 64, 42, 1000, 304), "f63d5c1d04b6c79e"),
        ((50_000, 16, 7, 2, 60_004), "3d3328638c633c76"),
        ((40_000, 1, 42, 3, 304), "9f4dcfcff6333493"),
    ],
)
def test_batches_are_fixed_for_ever(shape: tuple[int, int, int, int, int], digest: str) -> None:
    """A run that goes on under another version has to meet the same batches."""
    assert plan_digest(*shape) == digest


@pytest.mark.parametrize(
    ("count", "at_once"),
    [*itertools.product([0, 1, 2, 63, 64, 65, 1000], [1, 3, 64]), (40_000, 64), (40_000, 1 << 14)],
)
def test_a_shuffle_is_the_order_of_the_keys(
    monkeypatch: pytest.MonkeyPatch, count: int, at_once: int
) -> None:
    monkeypatch.setattr(streams, "_AT_ONCE", at_once)
    expected = np.argsort(stream_keys(count, 5, count), kind="stable")
    found = shuffled(count, 5, count)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


def test_equal_keys_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    mix = streams._mix
    few = np.uint64(0xE000000000000001)
    monkeypatch.setattr(streams, "_mix", lambda values: mix(values) & few)
    monkeypatch.setattr(streams, "_AT_ONCE", 16)
    keys = stream_keys(500, 1)
    assert len(set(keys.tolist())) == 16
    np.testing.assert_array_equal(shuffled(500, 1), np.argsort(keys, kind="stable"))


def make_loader(lengths: NDArray[np.int32]) -> Loader:
    cutting = Cutting(seed=1, batch_size=32, shares=2, micro_batch_tokens=8192, round_to=1)
    weights = np.ones(len(lengths), np.float32)
    return Loader(
        lengths, weights, cutting, assign(cutting.shares, 2)[0], lambda windows, _: windows.tolist()
    )


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_few_bytes_a_window_from_one_epoch_to_the_next() -> None:
    loader = make_loader(lengths_of(WINDOWS))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    works = loader.work(loader.batches_per_epoch, loader.batches_per_epoch + 1)
    next(works)
    steady, first_most = tracemalloc.get_traced_memory()
    next(works)
    _, most = tracemalloc.get_traced_memory()
    assert (steady - held) / WINDOWS < 5, "4 for the order, and one number for each batch"
    assert (first_most - held) / WINDOWS < 10
    assert (most - held) / WINDOWS < 14, "the last epoch's order is still there"


def test_a_late_epoch_begins_with_no_more_work_than_an_early_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mix, drawn = streams._mix, [0]
    plans: list[int] = []

    def counted(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        drawn[0] += len(values)
        return mix(values)

    class Counted(EpochPlan):
        def __init__(self, seed: int, epoch: int, lengths: NDArray[np.int32], batch: int) -> None:
            plans.append(epoch)
            super().__init__(seed, epoch, lengths, batch)

    monkeypatch.setattr(streams, "_mix", counted)
    monkeypatch.setattr(loader_module, "EpochPlan", Counted)
    loader = make_loader(lengths_of(20_000))
    spent = []
    for epoch in (1, 1000):
        drawn[0] = 0
        first = epoch * loader.batches_per_epoch + 1
        assert next(loader.work(first, first)).position.epoch == epoch
        spent.append(drawn[0])
    assert plans == [1, 1000]
    assert spent[0] == spent[1] > 20_000
