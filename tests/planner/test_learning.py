"""Batch, epochs, rate and memory, by the number of windows, the model and the machine."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from lightwork.planner.learning import (
    SCRATCH_UPDATES,
    answer_choices,
    batch_size,
    epochs,
    learning_choices,
    memory_choices,
)
from lightwork.planner.machine import Machine, choose_ranks, micro_batch_tokens
from lightwork.planner.models import BASE, ModelChoice
from tests.planner.made import BASE_MODEL, SCRATCH_MODEL, lengths

GIB = 1 << 30
LAPTOP = Machine(gpus=0, gpu_bytes=None, cores=8, memory_bytes=12 * GIB)
SIZES = [1, 30, 300, 3000, 30_000, 300_000]


def values(windows: int, model: ModelChoice) -> dict[str, object]:
    batch = batch_size(windows, model.kind == "scratch")
    return {choice.name: choice.value for choice in learning_choices(windows, batch, model)}


@pytest.mark.parametrize("from_scratch", [False, True])
def test_small_sets_get_smaller_batches_and_more_epochs(from_scratch: bool) -> None:
    batches = [batch_size(windows, from_scratch) for windows in SIZES]
    assert batches == sorted(batches)
    assert (batches[0], batches[-1]) == (8, 32)
    passes = [
        epochs(windows, batch, from_scratch) for windows, batch in zip(SIZES, batches, strict=True)
    ]
    assert passes == sorted(passes, reverse=True)
    assert passes[-1] >= 2


def test_more_windows_never_mean_fewer_updates() -> None:
    steps = [
        math.ceil(windows / batch_size(windows, False))
        * epochs(windows, batch_size(windows, False), False)
        for windows in (100, 600, 1500, 2500, 12_000, 60_000)
    ]
    assert all(a <= b for a, b in pairwise(steps))


def test_a_model_from_nothing_gets_enough_updates() -> None:
    found = values(3000, SCRATCH_MODEL)
    assert found["train.learning_rate"] == 1e-3
    assert found["train.warmup_ratio"] == 0.1
    assert int(str(found["train.epochs"])) * math.ceil(3000 / 32) >= SCRATCH_UPDATES


def test_rates_by_size() -> None:
    rates = {
        width: values(3000, replace(BASE_MODEL, shape=replace(BASE, width=width)))[
            "train.learning_rate"
        ]
        for width in (384, 768, 1024)
    }
    assert rates == {384: 5e-5, 768: 3e-5, 1024: 1e-5}


def test_long_epochs_are_evaluated_inside() -> None:
    assert "train.evaluate_every_steps" not in values(30_000, BASE_MODEL)
    assert values(96_000, BASE_MODEL)["train.evaluate_every_steps"] == 1000


def test_long_answers_can_be_found() -> None:
    assert answer_choices(lengths([9], [99], [30])) == []
    (choice,) = answer_choices(lengths([9], [99], [83]))
    assert (choice.name, choice.value) == ("evaluate.max_answer_tokens", 90)


@pytest.mark.parametrize(
    ("machine", "ranks"),
    [
        (Machine(4, 24 * GIB, 64, 200 * GIB), 4),
        (Machine(1, None, 64, 200 * GIB), 1),
        (Machine(0, None, 1, 8 * GIB), 1),
        (Machine(0, None, 2, 24 * GIB), 2),
        (Machine(0, None, 12, 64 * GIB), 6),
        (Machine(0, None, 128, 512 * GIB), 8),
        (Machine(0, None, 12, 8 * GIB), 1),  # no room for the state of two
    ],
)
def test_ranks(machine: Machine, ranks: int) -> None:
    assert choose_ranks(machine, BASE, 32)[0] == ranks


def test_a_rank_gets_two_windows() -> None:
    ranks, why = choose_ranks(Machine(8, 24 * GIB, 64, 200 * GIB), BASE, 8)
    assert ranks == 4
    assert "8 GPUs, but only 8 windows" in why


@pytest.mark.parametrize(
    ("machine", "tokens"),
    [
        (Machine(1, 8 * GIB, 8, 32 * GIB), 2048),
        (Machine(1, 16 * GIB, 8, 32 * GIB), 4096),
        (Machine(1, 24 * GIB, 8, 32 * GIB), 8192),
        (Machine(1, 80 * GIB, 8, 32 * GIB), 32_768),
        (Machine(1, None, 8, 32 * GIB), 8192),
        (Machine(0, None, 8, 500 * GIB), 8192),
        (Machine(0, None, 8, 1 * GIB), 1024),
    ],
)
def test_tokens_at_once(machine: Machine, tokens: int) -> None:
    found = micro_batch_tokens(machine, BASE, 384, ranks=1)
    assert found == tokens
    choices = memory_choices(machine, BASE_MODEL, 384, 1)
    assert [choice.value for choice in choices] == ([] if tokens == 8192 else [tokens])


def test_a_large_model_sees_fewer_tokens_and_two_windows_at_least() -> None:
    large = replace(BASE, layers=24, width=1024, heads=16, parameters=340_000_000)
    machine = Machine(1, 24 * GIB, 8, 32 * GIB)
    assert micro_batch_tokens(machine, large, 384, 1) < micro_batch_tokens(machine, BASE, 384, 1)
    assert micro_batch_tokens(LAPTOP, large, 512, 4) == 1024
