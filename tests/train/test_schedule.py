"""The learning rate as a function of the step."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from lightwork.train.schedule import Schedule, scaled_rate


def test_linear_warms_up_and_falls_to_one_part_above_zero() -> None:
    schedule = Schedule(peak=1.0, total_steps=10, warmup_ratio=0.2, kind="linear")
    rates = [schedule.learning_rate(step) for step in range(1, 11)]
    assert rates == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    assert schedule.learning_rate(11) == pytest.approx(0)


def test_cosine_is_half_way_in_the_middle() -> None:
    schedule = Schedule(2.0, 101, 0.0, "cosine")
    assert schedule.learning_rate(1) == 2.0
    assert schedule.learning_rate(51) == pytest.approx(1 + math.cos(math.pi * 50 / 101))
    assert schedule.learning_rate(102) == pytest.approx(0)


def test_constant_stays() -> None:
    schedule = Schedule(3.0, 100, 0.05, "constant")
    assert schedule.learning_rate(1) == pytest.approx(0.6)
    assert {schedule.learning_rate(step) for step in range(5, 101)} == {3.0}


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant"])
def test_every_step_of_the_shortest_runs_has_a_rate(kind: str) -> None:
    for total in (1, 2, 3):
        for ratio in (0.0, 0.06, 1.0):
            schedule = Schedule(1.0, total, ratio, kind)  # type: ignore[arg-type]
            rates = [schedule.learning_rate(step) for step in range(1, total + 1)]
            assert all(0 < rate <= 1 for rate in rates)


def test_the_rate_follows_the_batch_by_the_rule_that_is_asked_for() -> None:
    assert scaled_rate(3e-5, 128, 32, "linear") == pytest.approx(12e-5)
    assert scaled_rate(3e-5, 128, 32, "sqrt") == pytest.approx(6e-5)
    assert scaled_rate(3e-5, 8, 32, "sqrt") == pytest.approx(1.5e-5)
    assert scaled_rate(3e-5, 128, None, "none") == 3e-5
    assert scaled_rate(3e-5, 32, 32, "linear") == 3e-5


@pytest.mark.shared
def test_the_shared_case_of_a_resume(shared: Path) -> None:
    """The rate of an update is that of its number, however often and wherever the run stopped.

    They begin the warm-up at zero. Here no update has a rate of zero, so within the warm-up update
    n has what is there the rate after n; from its end on, all are the same.
    """
    case = shared / "cases/39-learning-rate-after-resume"
    given = json.loads((case / "input.json").read_bytes())
    rates = json.loads((case / "expect.json").read_bytes())["lr_for_next_update_after_n_done"]
    total, warmup = given["total_updates"], given["warmup_updates"]
    schedule = Schedule(given["peak"], total, warmup / total, "linear")
    assert schedule.warmup_steps == warmup
    for done, rate in ((int(done), rate) for done, rate in rates.items()):
        if done >= warmup:
            assert schedule.learning_rate(done + 1) == pytest.approx(rate, abs=1e-12)
        elif done:
            assert schedule.learning_rate(done) == pytest.approx(rate)
