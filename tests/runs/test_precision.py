"""Whole runs in half precision: they learn what float32 learns, and the tree keeps its promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs.conftest import World
from tests.runs.conftest import weights_digest as digest
from tests.runs.test_tree import LAST, TREE, go_back, ledger

pytestmark = pytest.mark.processes
HUNDRED = (
    "train.epochs=20", "train.max_steps=100", "train.evaluate_every_steps=1000",
    "train.log_every_steps=50",
)  # fmt: skip
EPOCH = 7
"""Steps: batches differ, so that losses are compared over a whole epoch."""


def test_half_precision_learns_what_float32_learns(
    world: World, losses: Callable[[Path], list[float]]
) -> None:
    last = {}
    for name in ("fp32", "bf16", "fp16"):
        run = world.train(1, f"hundred-{name}", *HUNDRED, f"train.precision={name}")
        found = losses(run)
        assert len(found) == 100
        last[name] = sum(found[-EPOCH:]) / EPOCH
        assert last[name] < 0.2 * found[0], "nothing was learned, so nothing was compared"
    assert last["bf16"] != last["fp32"] != last["fp16"]
    assert last["bf16"] == pytest.approx(last["fp32"], rel=0.02)
    assert last["fp16"] == pytest.approx(last["fp32"], rel=0.02)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.long)])
def test_the_tree_has_the_same_bits_in_half_precision(world: World, precision: str) -> None:
    half = (*TREE, f"train.precision={precision}")
    found = {digest(world.train(n, f"tree-{precision}{n}", *half)) for n in (1, 2, 3, 4)}
    assert len(found) == 1
    run = world.folder / f"tree-{precision}2"
    go_back(run, 5)
    world.train(3, run.name, *half)
    assert {digest(run)} == found
    assert ledger(run) == []
    state = json.loads((run / f"checkpoints/step-{LAST:06d}/state.json").read_text())
    scale, steady = (2.0**16, LAST) if precision == "fp16" else (1.0, 0)
    assert state["stepper"] == {"skipped_steps": 0, "loss_scale": scale, "steady_steps": steady}
    assert state["fingerprint"]["precision"] == precision


def test_auto_is_float32_on_a_cpu_and_stays_what_it_was(world: World) -> None:
    run = world.train(1, "auto-precision", "train.max_steps=1")
    record = json.loads((run / "run.json").read_text())
    assert record["precision"] == "fp32"
    (run / "run.json").write_text(json.dumps({**record, "precision": "bf16"}))
    world.train(1, run.name, "train.max_steps=1")
    assert json.loads((run / "run.json").read_text())["precision"] == "bf16"
