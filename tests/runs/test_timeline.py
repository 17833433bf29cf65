"""Records of whole runs: every second of every step is told, and the slow rank is found."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lightwork.report.explaining import explained
from lightwork.telemetry.records import STEP_PARTS, VERSION
from tests.ranks import run_as_processes
from tests.runs.conftest import World

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")


def records(run: Path, rank: int) -> list[dict[str, Any]]:
    lines = (run / f"metrics/rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("strategy", ["all_reduce", "tree", "ddp"])
def test_the_parts_of_every_step_add_up(world: World, strategy: str) -> None:
    run = world.train(2, f"parts-{strategy}", f"sync.strategy={strategy}", "train.shares=2")
    for rank in (0, 1):
        for record in records(run, rank):
            assert record["version"] == VERSION
            parts = [record[f"{part}_s"] for part in STEP_PARTS]
            assert sum(parts) == pytest.approx(record["step_s"])
            assert min(parts) > -1e-6, record
            assert record["slowest_busy_s"] >= record["busy_s"]
            assert record["bucket_ready_s"] == sorted(record["bucket_ready_s"])
            assert bool(record["bucket_ready_s"]) is (strategy != "ddp")
            assert record["hidden_sync_s"] >= 0
    assert {r["slowest_rank"] for r in records(run, 0)} <= {0, 1}
    assert records(run, 0)[3]["slowest_busy_s"] == records(run, 1)[3]["slowest_busy_s"]


def test_the_slow_rank_is_named_by_all_and_the_others_wait_for_it(world: World) -> None:
    arguments = (str(world.settings), str(world.folder / "slow"), "train.max_steps=14")
    run_as_processes(2, f"{PLANTED}:slow_rank", *arguments, timeout_s=120, join=False)
    fast, slow = (records(world.folder / "slow", rank)[2:] for rank in (0, 1))
    assert {r["slowest_rank"] for r in fast + slow} == {1}
    assert median(r["wait_s"] for r in fast) > 0.15
    assert median(r["wait_s"] for r in slow) == 0
    assert median(r["step_s"] for r in fast) == pytest.approx(
        median(r["step_s"] for r in slow), rel=0.2
    ), "by the clock alone nobody is slow"
    finding = explained(world.folder / "slow")[1][0]
    assert (finding.kind, finding.rank) == ("straggler", 1)
    assert "most of it in forward" in finding.words
    said = (world.folder / "slow/logs/rank0.log").read_text()
    assert "straggler: rank 1 takes" in said
    assert said.count("lightwork explain") == 1
