"""Whole runs by every way of exchanging gradients: what is learned does not change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import World

pytestmark = pytest.mark.processes
SOME = ("train.max_steps=8", "train.shares=4", "model.dropout=0.1")


def metrics(run: Path, rank: int = 0) -> list[dict[str, Any]]:
    lines = (run / f"metrics/rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def exchange(run: Path, step: int) -> dict[str, Any]:
    """What the checkpoint of a step says that gradients travelled by."""
    state = json.loads((run / f"checkpoints/step-{step:06}/state.json").read_text())
    found: dict[str, Any] = state["sync"]
    return found


def test_the_ring_learns_what_all_reduce_does_and_measures_its_buckets_once(
    world: World, losses: Callable[[Path], list[float]]
) -> None:
    plain = world.train(2, "exchange-plain", *SOME)
    auto = ("sync.strategy=ring", "sync.bucket_bytes=auto", "checkpoint.every_steps=4")
    ring = world.train(3, "exchange-ring", *SOME, *auto)
    chosen = exchange(ring, 8)
    assert chosen["strategy"] == "ring"
    assert chosen["bucket_bytes"] >= 256 * 1024
    shutil.rmtree(ring / "checkpoints/step-000008")
    (ring / "metrics/rank0.jsonl").unlink()
    assert world.train(3, "exchange-ring", *SOME, *auto) == ring
    assert exchange(ring, 8) == chosen
    assert losses(ring) == pytest.approx(losses(plain)[4:], rel=1e-5)
    said = (ring / "logs/rank0.log").read_text()
    assert said.count("sync.bucket_bytes auto") == 1, "it was measured again"


def test_without_overlap_nothing_travels_during_backward(
    world: World, losses: Callable[[Path], list[float]]
) -> None:
    over = world.train(2, "exchange-over", *SOME)
    none = world.train(2, "exchange-none", *SOME, "sync.overlap=none")
    assert losses(none) == losses(over), "the same buckets are summed"
    assert all(line["hidden_sync_s"] == 0 for line in metrics(none))
    for line in metrics(none):
        assert min(line["bucket_ready_s"]) >= line["forward_s"] + line["backward_s"]
    assert any(line["hidden_sync_s"] > 0 for line in metrics(over))
