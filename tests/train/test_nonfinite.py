"""A loss or a gradient that is not finite on one rank: all stop, or all leave the batch out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lightwork.comm.group import Group
from lightwork.errors import StepError
from lightwork.telemetry.timing import StepClock
from lightwork.train.precision import FIRST_SCALE, GROWTH_STEPS, LARGEST_SCALE, Precision
from lightwork.train.replicas import checksum
from lightwork.train.step import Outcome, Rules, Stepper
from tests.ranks import run_as_threads
from tests.train.toy import ToyTask, summing, toy_run

CPU = torch.device("cpu")
SKIP = Rules(skip_nonfinite=True, max_skipped_steps=2)
BAD_STEP = 2


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="lightwork")


def infinite(gradient: Tensor) -> Tensor:
    return gradient * float("inf")


class Planted:
    """Three ranks, of which one gets an infinite gradient in some steps."""

    def __init__(self, group: Group, rules: Rules, strategy: str, precision: Any) -> None:
        self.task = ToyTask()
        self.stepper, self.loader, self.module = toy_run(
            group, summing(strategy, group), self.task, rules=rules, precision=precision
        )
        self.group = group

    def run(self, bad_steps: set[int], last: int = 4) -> list[Outcome]:
        weight = self.module.get_parameter("hidden.weight")
        outcomes = []
        for work in self.loader.work(1, last):
            bad = work.step in bad_steps and self.group.rank == 1
            hook = weight.register_hook(infinite) if bad else None
            rate = 0.05 / (work.step - self.stepper.skipped_steps)
            clock = StepClock(CPU)
            outcomes.append(self.stepper.run(work.step, work, rate, clock))
            if hook is not None:
                hook.remove()
        return outcomes


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("strategy", ["all_reduce", "tree"])
def test_an_infinite_gradient_on_one_rank_is_skipped_by_all(strategy: str, precision: str) -> None:
    entries: list[dict[str, Any]] = []

    def trained(group: Group) -> tuple[list[bool], str, int, dict[str, float]]:
        rules = replace(SKIP, write_down=entries.append) if group.rank == 0 else SKIP
        run = Planted(group, rules, strategy, precision)
        outcomes = run.run({BAD_STEP})
        applied = [outcome.applied for outcome in outcomes]
        skipped = run.stepper.skipped_steps
        return applied, checksum(run.module.state_dict().values()), skipped, run.stepper.state()

    found = run_as_threads(3, trained)
    assert found[1:] == found[:-1], "ranks went different ways"
    assert found[0][0] == [True, False, True, True]
    assert found[0][2] == 1
    scale = FIRST_SCALE if precision == "fp16" else 1.0  # the batch was to blame, not the scale
    assert found[0][3]["loss_scale"] == scale
    (entry,) = entries
    assert (entry["step"], entry["changed"]) == (BAD_STEP, "skipped")
    assert (
        "rank 1: the gradient is not finite, although the loss is (with the examples w"
        in (entry["why"])
    )


def test_a_skipped_step_leaves_weights_moments_and_schedule_alone() -> None:
    run = Planted(Group.alone(), SKIP, "all_reduce", "fp32")
    task, works = run.task, list(run.loader.work(1, 3))
    other = Planted(Group.alone(), SKIP, "all_reduce", "fp32")
    for work in works:
        task.poison = {works[1].windows[0]: float("nan")} if work.step == BAD_STEP else {}
        rate = 0.05 / (work.step - run.stepper.skipped_steps)
        run.stepper.run(work.step, work, rate, StepClock(CPU))
    for work, rate in ((works[0], 0.05), (works[2], 0.05 / 2)):
        other.stepper.run(work.step, work, rate, StepClock(CPU))
    for name, tensor in run.module.state_dict().items():
        assert torch.equal(tensor, other.module.state_dict()[name]), name


def test_stopping_names_rank_step_and_examples() -> None:
    def trained(group: Group) -> tuple[str, str, str]:
        run = Planted(group, Rules(), "all_reduce", "fp32")
        run.run(set(), last=1)
        before = checksum(run.module.state_dict().values())
        run.module.get_parameter("out.bias").register_hook(infinite if group.rank == 1 else _as_is)
        work = next(run.loader.work(BAD_STEP, BAD_STEP))
        with pytest.raises(StepError) as caught:
            run.stepper.run(BAD_STEP, work, 0.05, StepClock(CPU))
        ids = [f"w{window}" for window in work.windows] if group.rank == 1 else []
        after = checksum(run.module.state_dict().values())
        return str(caught.value), before + after, ",".join(ids[:5])

    found = run_as_threads(3, trained)
    assert len({text for text, _, _ in found}) == 1
    text, _, _ = found[0]
    assert f"step {BAD_STEP} failed" in text
    assert text.count("rank ") == 1
    assert "rank 1: the gradient is not finite" in text
    assert found[1][2].replace(",", ", ") in text
    assert "train.on_nonfinite=skip" in text
    assert len({weights for _, weights, _ in found}) == 1
    assert found[0][1][:16] == found[0][1][16:], "a failed step left traces"


def _as_is(gradient: Tensor) -> Tensor:
    return gradient


def test_more_skipped_steps_than_allowed_stop_all() -> None:
    def trained(group: Group) -> str:
        run = Planted(group, SKIP, "all_reduce", "fp32")
        with pytest.raises(StepError) as caught:
            run.run({1, 2, 3})
        assert run.stepper.skipped_steps == 2
        return str(caught.value)

    found = run_as_threads(2, trained)
    assert found[0] == found[1]
    assert "step 3 failed" in found[0]
    assert "2 steps were left out before (train.max_skipped_steps)" in found[0]


def overflowing(most: float) -> Callable[[Tensor], Tensor]:
    """A type in which nothing above ``most`` can be said."""
    return lambda gradient: gradient.masked_fill(gradient.abs() > most, float("inf"))


def test_an_overflow_repeats_the_step_with_a_smaller_scale() -> None:
    """No batch is lost, and a scale is a power of two: the bits are those of a smaller scale."""

    def trained(group: Group, first_scale: float, most: float) -> tuple[str, dict[str, float], int]:
        run = Planted(group, Rules(), "tree", "fp16")
        run.stepper.load({"loss_scale": first_scale})
        run.module.get_parameter("out.weight").register_hook(overflowing(most))
        outcomes = run.run(set(), last=6)
        assert all(outcome.applied for outcome in outcomes)
        scales = {outcome.loss_scale for outcome in outcomes}
        return checksum(run.module.state_dict().values()), run.stepper.state(), len(scales)

    most = 200.0
    found = run_as_threads(2, lambda group: trained(group, FIRST_SCALE, most))
    assert found[0] == found[1]
    digest, state, scales = found[0]
    assert 1.0 < state["loss_scale"] < FIRST_SCALE
    assert scales > 1 or state["loss_scale"] < FIRST_SCALE
    alone = trained(Group.alone(), FIRST_SCALE, most)
    assert alone[:2] == (digest, state)
    never = trained(Group.alone(), state["loss_scale"] / 4, float("inf"))
    assert never[0] == digest


def test_the_scale_grows_and_is_kept() -> None:
    precision = Precision("fp16")
    for _ in range(GROWTH_STEPS - 1):
        precision.applied()
    assert precision.loss_scale == FIRST_SCALE
    again = Precision("fp16")
    again.load(precision.state())
    again.applied()
    assert again.loss_scale == 2 * FIRST_SCALE
    for _ in range(20 * GROWTH_STEPS):
        again.applied()
    assert again.loss_scale == LARGEST_SCALE
    plain = Precision("bf16")
    plain.load(again.state())
    for _ in range(GROWTH_STEPS):
        plain.applied()
    assert plain.loss_scale == 1.0
    assert not plain.lower()


def test_state_of_the_stepper_travels() -> None:
    def stepper() -> Stepper:
        return Planted(Group.alone(), SKIP, "all_reduce", "fp16").stepper

    first, second = stepper(), stepper()
    first.skipped_steps = 2
    first.load({**first.state(), "loss_scale": 64.0, "steady_steps": 9})
    second.load(first.state())
    assert second.state() == {"skipped_steps": 2, "loss_scale": 64.0, "steady_steps": 9}
