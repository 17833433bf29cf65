"""The plan: every window once, similar lengths together, shares that carry the same load."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightwork.data.plan import EpochPlan, assign, cut, evaluation_batches, padding_waste
from lightwork.data.streams import shuffled, stream_keys, stream_seed

lengths_lists = st.lists(st.integers(1, 384), min_size=1, max_size=300)


def squad_like(count: int) -> NDArray[np.int32]:
    """Lengths with the mean and tail of SQuAD windows: mean about 172, tenth above 253."""
    draws = np.random.default_rng(7).gamma(6.5, 26.0, count) + 12
    return np.minimum(draws, 384).astype(np.int32)


@given(lengths_lists, st.integers(1, 40), st.integers(0, 3), st.integers(0, 2**40))
def test_each_window_exactly_once_per_epoch(
    lengths: list[int], batch_size: int, epoch: int, seed: int
) -> None:
    plan = EpochPlan(seed, epoch, np.array(lengths), batch_size)
    seen = np.concatenate(list(plan))
    assert sorted(seen.tolist()) == list(range(len(lengths)))
    assert len(plan) == -(-len(lengths) // batch_size)
    assert all(len(batch) == batch_size for batch in list(plan)[:-1])


def test_epochs_differ_and_repeat_themselves() -> None:
    lengths = squad_like(1000)
    first = [b.tolist() for b in EpochPlan(1, 0, lengths, 16)]
    assert first == [b.tolist() for b in EpochPlan(1, 0, lengths, 16)]
    for other in (EpochPlan(1, 1, lengths, 16), EpochPlan(2, 0, lengths, 16)):
        sets = {frozenset(b.tolist()) for b in other}
        assert not sets & {frozenset(b) for b in first}, "whole batches came back"


def test_the_batch_with_most_tokens_comes_first_in_epoch_0_only() -> None:
    lengths = squad_like(5000)
    sums = [int(lengths[b].sum()) for b in EpochPlan(3, 0, lengths, 32)]
    assert sums[0] == max(sums)
    later = [
        [int(lengths[b].sum()) for b in EpochPlan(3, epoch, lengths, 32)] for epoch in range(1, 9)
    ]
    assert any(s[0] != max(s) for s in later)


@given(lengths_lists, st.integers(1, 12), st.integers(16, 4000), st.sampled_from([1, 8, 16]))
def test_cut_loses_nothing_and_respects_memory(
    lengths: list[int], shares: int, micro_batch_tokens: int, round_to: int
) -> None:
    windows = np.arange(100, 100 + len(lengths), dtype=np.int32)
    table = dict(zip(windows.tolist(), lengths, strict=True))
    parts = cut(windows, np.array(lengths), shares, micro_batch_tokens, round_to)
    assert len(parts) == shares
    micro_batches = [micro for part in parts for micro in part]
    seen = sorted(int(w) for micro in micro_batches for w in micro.windows)
    assert seen == windows.tolist()
    for micro in micro_batches:
        longest = max(table[int(w)] for w in micro.windows)
        assert micro.padded_tokens == -(-longest // round_to) * round_to
        assert len(micro.windows) == 1 or len(micro.windows) * micro.padded_tokens <= (
            micro_batch_tokens
        )


@given(lengths_lists, st.randoms())
def test_cut_does_not_depend_on_the_order_in_which_windows_are_named(
    lengths: list[int], random: object
) -> None:
    windows = np.arange(len(lengths), dtype=np.int32)
    mixed = windows.copy()
    random.shuffle(mixed)  # type: ignore[attr-defined]
    table = np.array(lengths)
    one = cut(windows, table[windows], 3, 500)
    two = cut(mixed, table[mixed], 3, 500)
    assert [[m.windows.tolist() for m in part] for part in one] == [
        [m.windows.tolist() for m in part] for part in two
    ]


@given(st.integers(1, 64), st.integers(1, 20))
def test_assign_is_contiguous_even_and_complete(shares: int, ranks: int) -> None:
    hosts = assign(shares, ranks)
    assert [share for host in hosts for share in host] == list(range(shares))
    sizes = [len(host) for host in hosts]
    assert len(hosts) == ranks
    assert max(sizes) - min(sizes) <= 1


@given(lengths_lists, st.integers(1, 3000))
def test_evaluation_batches_hold_every_window_once(lengths: list[int], tokens: int) -> None:
    batches = evaluation_batches(np.array(lengths), tokens)
    assert sorted(int(w) for b in batches for w in b.windows) == list(range(len(lengths)))
    assert all(len(b.windows) == 1 or len(b.windows) * b.padded_tokens <= tokens for b in batches)


@pytest.mark.parametrize(
    ("ranks", "rank_batch", "round_to", "limit"),
    [(2, 16, 8, 0.035), (8, 16, 8, 0.055), (2, 16, 1, 0.02), (4, 4, 1, 0.01), (8, 4, 1, 0.02)],
)
def test_waste_with_waiting_counted(
    ranks: int, rank_batch: int, round_to: int, limit: float
) -> None:
    lengths = squad_like(8000)
    plan = EpochPlan(42, 0, lengths, rank_batch * ranks)
    assert padding_waste(lengths, ranks, ranks, plan, 1 << 20, round_to) <= limit


def test_waste_counts_what_it_says() -> None:
    lengths = np.array([10, 10, 8, 1])
    plan = EpochPlan(0, 0, lengths, 4)
    # Rounded to 8: 16 16 8 8. Two shares of equal cost do not exist: 32 and 16.
    assert padding_waste(lengths, 2, 2, plan, 1 << 20) == pytest.approx(1 - 29 / (2 * 32))


def test_streams_are_fixed_for_ever() -> None:
    # A resumed run relies on these numbers under every NumPy version and platform. Without a name
    # they are SplitMix64's own published first outputs.
    splitmix = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert stream_keys(3).tolist() == splitmix
    assert stream_keys(2, 42, 0, 1).tolist() == [8767447543945868865, 14111615945936064009]
    assert shuffled(8, 42, 0).tolist() == [6, 2, 5, 7, 0, 4, 3, 1]


def test_streams_do_not_meet() -> None:
    seeds = {
        stream_seed(seed, step, share, micro)
        for seed in range(5)
        for step in range(10)
        for share in range(8)
        for micro in range(3)
    }
    assert len(seeds) == 5 * 10 * 8 * 3
    assert stream_seed(1, 2) != stream_seed(2, 1)
    assert stream_seed(1) != stream_seed(1, 0)
