"""Profiles of whole runs: a trace of each rank, and records that say which steps are slower."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import World

pytestmark = pytest.mark.processes

PARTS = {"copy", "forward", "backward", "sync", "optimizer", "control"}


def records(run: Path, rank: int) -> list[dict[str, Any]]:
    lines = (run / f"metrics/rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def ranges(run: Path, rank: int) -> list[str]:
    with gzip.open(run / f"profile/rank{rank}.json.gz") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return [event["name"] for event in events if event.get("cat") == "user_annotation"]


def test_a_trace_of_every_rank(world: World) -> None:
    run = world.train(2, "profiled", "telemetry.profile_steps=3-4", "train.max_steps=6")
    for rank in (0, 1):
        found = ranges(run, rank)
        assert {name for name in found if name.startswith("step ")} == {"step 3", "step 4"}
        assert set(found) >= PARTS
        assert found.count("control") == 2
        slower = [r["step"] for r in records(run, rank) if r["profiled"]]
        assert slower == [3, 4, 5], "before the last of them the trace was written"
    said = [(run / f"logs/rank{rank}.log").read_text() for rank in (0, 1)]
    assert f"steps 3 to 4 were profiled: {run / 'profile/rank0.json.gz'} and one of each" in said[0]
    assert sorted(path.name for path in (run / "profile").iterdir()) == [
        "rank0.json.gz", "rank1.json.gz",
    ]  # fmt: skip


def test_steps_that_do_not_come_leave_no_trace(world: World) -> None:
    run = world.train(1, "not-profiled", "telemetry.profile_steps=20-25", "train.max_steps=2")
    assert not (run / "profile").exists()
    assert not any(record["profiled"] for record in records(run, 0))
    said = (run / "logs/rank0.log").read_text()
    assert "steps 20 to 25 are not profiled (telemetry.profile_steps): this start does" in said


def test_a_run_that_shows_its_numbers_nowhere_has_them_in_its_files(world: World) -> None:
    run = world.train(1, "no-sinks", "telemetry.sinks=[]", "train.max_steps=2")
    assert not (run / "tensorboard").exists()
    assert [record["step"] for record in records(run, 0)] == [1, 2]


@pytest.mark.gpu
def test_a_card_is_sampled_and_its_kernels_are_in_the_trace(world: World) -> None:
    chosen = ("launch.device=cuda", "telemetry.profile_steps=3-4", "train.epochs=60")
    run = world.train(1, "profiled-gpu", *chosen, "train.evaluate_every_steps=1000")
    with gzip.open(run / "profile/rank0.json.gz") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    assert any(event.get("cat") == "kernel" for event in events)
    sampled = [r for r in records(run, 0) if r["cpu_percent"] is not None]
    assert sampled
    assert all(r["card_temperature_c"] > 0 for r in sampled)
