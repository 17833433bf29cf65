"""Whole runs in which one rank meets too little memory or an infinite gradient."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ranks import run_as_processes
from tests.runs.conftest import World
from tests.runs.conftest import weights_digest as digest
from tests.runs.test_tree import go_back, ledger, log

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
STEPS = ("train.max_steps=8", "train.shares=2", "checkpoint.every_steps=1", "checkpoint.keep=20")


def planted(world: World, mishap: str, name: str, *overrides: str) -> Path:
    run = world.folder / name
    arguments = (str(world.settings), str(run), *STEPS, *overrides)
    run_as_processes(2, f"{PLANTED}:{mishap}", *arguments, timeout_s=120, join=False)
    return run


def state(run: Path, step: int) -> dict[str, Any]:
    text = (run / f"checkpoints/step-{step:06d}/state.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("strategy", ["all_reduce", "tree"])
def test_out_of_memory_on_one_rank_is_survived(
    world: World, losses: Callable[[Path], list[float]], strategy: str
) -> None:
    how = f"sync.strategy={strategy}"
    plain = world.train(2, f"memory-{strategy}", *STEPS, how)
    run = planted(world, "little_memory", f"little-{strategy}", how)
    assert losses(run) == pytest.approx(losses(plain), rel=1e-5)
    entries = ledger(run)
    assert {entry["changed"] for entry in entries} == {"micro_batch_tokens"}
    assert entries[0] | {"step": 1, "from": 128, "why": "out of memory on rank 1"} == entries[0]
    assert "out of memory on rank 1, so it is repeated" in log(run)
    least = entries[-1]["to"]
    assert state(run, 8)["cutting"]["micro_batch_tokens"] == least < 128
    assert state(run, 8)["fingerprint"]["micro_batch_tokens"] == least


def test_what_memory_holds_is_not_tried_again_after_a_resume(world: World) -> None:
    run = planted(world, "little_memory", "little-resumed", "sync.strategy=tree")
    whole, entries = digest(run), ledger(run)
    go_back(run, 5)
    world.train(2, run.name, *STEPS, "sync.strategy=tree")  # where there is enough
    assert ledger(run) == entries
    assert digest(run) == whole
    go_back(run, 5)
    world.train(2, run.name, *STEPS, "sync.strategy=tree", "train.micro_batch_tokens=100")
    assert state(run, 8)["cutting"]["micro_batch_tokens"] == 100


def test_auto_finds_out_before_the_first_step(
    world: World, losses: Callable[[Path], list[float]]
) -> None:
    run = planted(world, "little_memory", "little-auto", "train.micro_batch_tokens=auto")
    assert ledger(run) == []
    tokens = state(run, 8)["cutting"]["micro_batch_tokens"]
    assert f"micro-batches of up to {tokens} padded tokens" in log(run)
    assert tokens <= 64
    plain = world.train(2, "enough-auto", *STEPS, "train.micro_batch_tokens=auto")
    assert state(plain, 8)["cutting"]["micro_batch_tokens"] > 128
    assert losses(run) == pytest.approx(losses(plain), rel=1e-5)


def test_an_infinite_gradient_stops_all_or_is_left_out_by_all(world: World) -> None:
    with pytest.raises(RuntimeError) as caught:
        planted(world, "infinite_gradient", "infinite-stop")
    assert "step 2 failed, nothing of it was applied. rank 1: the gradient is not finite" in (
        str(caught.value)
    )
    assert "(with the examples q" in str(caught.value)
    for strategy in ("ddp", "all_reduce"):
        chosen = (f"sync.strategy={strategy}", "train.on_nonfinite=skip")
        run = planted(world, "infinite_gradient", f"infinite-skip-{strategy}", *chosen)
        left_out_alike(run)
    limit = ("train.on_nonfinite=skip", "train.max_skipped_steps=1")
    with pytest.raises(RuntimeError, match="1 step was left out before"):
        planted(world, "infinite_gradient", "infinite-limit", *limit)


def left_out_alike(run: Path) -> None:
    """Steps 2 and 5 were left out by both ranks, and the schedule did not move in them."""
    lines = [
        [json.loads(line) for line in (run / f"metrics/rank{rank}.jsonl").read_text().splitlines()]
        for rank in (0, 1)
    ]
    for rank in lines:
        assert [line["step"] for line in rank if not line["applied"]] == [2, 5]
        rates = [line["learning_rate"] for line in rank]
        assert rates[1] == rates[2], "the schedule moved in a step without an update"
        assert rates[4] == rates[5]
    assert [entry["step"] for entry in ledger(run)] == [2, 5]
    assert state(run, 8)["stepper"]["skipped_steps"] == 2
    assert log(run).count("Its batch is left out (train.on_nonfinite)") == 2
