"""Memory, losses and gradients out of line: found where they are, and not where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightwork.report.explaining import explained, sentence
from lightwork.report.finding import Finding
from lightwork.report.fixed_costs import fixed_cost
from lightwork.report.outliers import jumps
from lightwork.report.steps import read_steps
from tests.report.stepped import write_steps

QUIET: dict[str, Any] = {}
GB = 10**9


def found_in(run: Path, *ranks: dict[str, Any], count: int = 60) -> list[Finding]:
    write_steps(run, list(ranks), count=count)
    return explained(run)[1]


def kinds(found: list[Finding]) -> list[str]:
    return [finding.kind for finding in found]


def test_memory_that_no_step_gives_back_is_a_leak_of_its_rank(tmp_path: Path) -> None:
    leaking = {
        "private_bytes": lambda step: GB + step * 10_000_000,
        "memory_bytes": lambda step: GB + step * 10_000_000,
        "memory_total_bytes": 4 * GB,
    }
    (finding,) = found_in(tmp_path, QUIET, leaking)
    assert (finding.kind, finding.rank, finding.saved_s) == ("memory", 1, 0.0)
    assert "rank 1 holds 10.0 MB more memory of the host after every step" in finding.words
    assert "memory lasts for some 240 steps" in finding.todo


def test_memory_of_a_device_that_grows_is_told_from_that_of_the_host(tmp_path: Path) -> None:
    leaking = {"memory_bytes": lambda step: GB + step * 10_000_000, "memory_total_bytes": 80 * GB}
    (finding,) = found_in(tmp_path, leaking)
    assert "more memory for tensors" in finding.words


GROWTHS: dict[str, Any] = {
    "caches that fill up": lambda step: GB + int(GB * (1 - 0.8**step)),
    "one step up": lambda step: 2 * GB if step > 30 else GB,
    "a little": lambda step: GB + step * 1_000_000,
    "up and down": lambda step: GB + GB * (step // 10 % 2),
}


@pytest.mark.parametrize("name", GROWTHS)
def test_memory_that_is_no_leak(tmp_path: Path, name: str) -> None:
    own = {"private_bytes": GROWTHS[name], "memory_bytes": GROWTHS[name]}
    assert kinds(found_in(tmp_path, own)) == ["compute"]


def test_memory_that_is_nearly_used_up(tmp_path: Path) -> None:
    full = {"memory_bytes": 76 * GB, "memory_total_bytes": 80 * GB}
    room = {"memory_bytes": 60 * GB, "memory_total_bytes": 80 * GB}
    (finding,) = found_in(tmp_path, room, full)
    assert (finding.kind, finding.rank) == ("memory", 1)
    assert "rank 1 has held 95% of its memory, 76.00 GB of 80.00 GB" in finding.words


def micro(fixed_s: float, times: int) -> dict[str, Any]:
    """``fixed_s`` for each of some ``times`` micro-batches beside 50 us for a token."""

    def counted(step: int) -> int:
        return times - 1 + step % 3

    def tokens(step: int) -> int:
        return 4000 + 700 * (step % 4)

    return {
        "micro_batches": counted, "padded_tokens": tokens, "real_tokens": tokens,
        "forward": lambda step: fixed_s * counted(step),
        "backward": lambda step: 5e-5 * tokens(step),
    }  # fmt: skip


def test_free_memory_is_worth_a_word_where_larger_micro_batches_pay(tmp_path: Path) -> None:
    memory = {"memory_bytes": 20 * GB, "memory_total_bytes": 80 * GB}
    (finding,) = found_in(tmp_path / "pays", {**micro(0.005, 8), **memory})
    assert finding.kind == "memory"
    assert "75% of the memory is free" in finding.words
    assert "4.0 times as large would fit" in finding.todo
    assert finding.saved_s == pytest.approx(0.005 * 6, rel=0.2), "two of eight are left"
    assert not finding.warns
    for name, own in {
        "full": {**micro(0.005, 8), "memory_bytes": 60 * GB, "memory_total_bytes": 80 * GB},
        "cheap": {**micro(0.001, 8), **memory},
    }.items():
        assert kinds(found_in(tmp_path / name, own)) == ["compute"], name


@pytest.mark.parametrize("times", [2, 8])
def test_what_micro_batches_cost_is_found_also_where_their_number_stays(
    tmp_path: Path, times: int
) -> None:
    own = {**micro(0.06, times), "micro_batches": times, "forward": 0.06 * times}
    (finding,) = found_in(tmp_path, own)
    assert finding.kind == "micro_batches"
    fixed = fixed_cost(read_steps(tmp_path))
    assert fixed is not None
    assert fixed.each_s == pytest.approx(0.06, rel=0.1)


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_fixed_cost(tmp_path: Path, seed: int) -> None:
    """Seconds that another program blurs by half, and that know nothing of micro-batches."""
    draw = np.random.default_rng(seed)
    own = {
        **micro(0.0, 8),
        "backward": lambda step: 5e-5 * (4000 + 700 * (step % 4)) * float(draw.lognormal(0, 0.5)),
    }
    write_steps(tmp_path, [own])
    fixed = fixed_cost(read_steps(tmp_path))
    assert fixed is None or fixed.part < 0.1


def norms(count: int, sigma: float, seed: int) -> Any:
    return np.exp(np.random.default_rng(seed).normal(0, sigma, count))


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.6])
def test_ordinary_norms_have_no_spikes(sigma: float) -> None:
    """A hundred thousand steps: none, or nobody would believe the one that is."""
    fall = np.exp(-np.arange(100_000) / 500).clip(0.1)
    assert np.flatnonzero(jumps(norms(100_000, sigma, 1) * fall)).tolist() == []


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.6])
def test_a_spike_is_found_on_a_falling_course(sigma: float) -> None:
    fall = 10 * np.exp(-np.arange(300) / 30).clip(1e-3)
    values = norms(300, sigma, 2) * fall
    values[120] *= 1000
    assert np.flatnonzero(jumps(values)).tolist() == [120]


def test_norms_that_are_often_far_apart_have_no_spikes() -> None:
    values = norms(2000, 0.1, 3)
    values[::10] *= 50
    assert not jumps(values).any()


def test_the_first_steps_and_steps_without_a_number_are_no_spikes() -> None:
    values = norms(60, 0.2, 4)
    values[5] = 1e4
    values[30] = np.nan
    values[40] = np.inf
    assert np.flatnonzero(jumps(values)).tolist() in ([], [40])
    assert not jumps(np.full(60, 0.0)).any()
    assert not jumps(np.zeros(3)).any()


def spiky(step: int) -> float:
    return 40.0 if step == 47 else 1.0 + step % 3 / 10


def test_a_spike_is_blamed_on_the_micro_batch_that_stands_out(tmp_path: Path) -> None:
    dirty = {"worst_windows": lambda step: [7, 9] if step == 47 else [], "worst_loss": 30.0}
    (finding,) = found_in(tmp_path, {"grad_norm": spiky}, {"grad_norm": spiky, **dirty})
    assert (finding.kind, finding.rank) == ("spike", 1)
    assert (finding.at_steps, finding.windows) == ((47,), (7, 9))
    assert "jumps at step 47: to 40 at step 47" in finding.words
    assert sentence(finding).endswith("(with the windows 7, 9)")


def test_the_few_windows_at_the_end_of_an_epoch_are_no_spike(tmp_path: Path) -> None:
    short = {"grad_norm": spiky, "batch_windows": lambda step: 5 if step == 47 else 16}
    assert kinds(found_in(tmp_path, short)) == ["compute"]


def test_a_spike_long_before_the_newest_steps_is_found(tmp_path: Path) -> None:
    (finding,) = found_in(tmp_path, {"grad_norm": spiky}, count=4000)
    assert (finding.kind, finding.at_steps) == ("spike", (47,))


def test_a_bad_card_is_named_with_the_steps_that_show_it(tmp_path: Path) -> None:
    bad = {"rank_loss": lambda step: 20.0 if step == 33 else 7.0}
    (finding,) = found_in(tmp_path, QUIET, bad, QUIET)
    assert (finding.kind, finding.rank) == ("bad_shard", 1)
    assert finding.at_steps[0] == 33
    assert "the loss of rank 1 is 3.5 times that of the others (7.00, not 2.0" in finding.words


def test_losses_that_differ_by_next_to_nothing_are_in_line(tmp_path: Path) -> None:
    found = found_in(tmp_path, {"rank_loss": 0.001}, {"rank_loss": 0.01})
    assert kinds(found) == ["compute"]
