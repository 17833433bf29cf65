"""From the steps that contenders noted to figures and tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.figures import compare, document, figures
from benchmarks.plans import PEERS, rows, waste
from benchmarks.racing import read_steps, run_command
from tests.conftest import ROOT


def outcome(contender: str, repeat: int, step_s: list[float], **more: Any) -> dict[str, Any]:
    return {
        "contender": contender,
        "repeat": repeat,
        "wall_s": 100.0,
        "first_step_s": 10.0,
        "step_s": step_s,
        "step_windows": [32] * (len(step_s) - 1) + [16],
        "peak_memory_bytes": 512 << 20,
        "scores": {},
        **more,
    }


def test_steps_are_read_from_lightworks_metrics_and_from_a_peers_log(tmp_path: Path) -> None:
    metrics = [{"step": k, "time_unix_s": 10.0 + k, "loss": 1 / k, "step_s": 9.9} for k in (1, 2)]
    log = [{"threads": 1}, {"step": 1, "time_unix_s": 11.0}, {"step": 1, "loss": 1.0}]
    log += [{"step": 2, "time_unix_s": 12.0}]
    for name, lines in (("metrics", metrics), ("log", log)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    ours, theirs = read_steps(tmp_path / "metrics"), read_steps(tmp_path / "log")
    assert ours.ended_unix_s == theirs.ended_unix_s == {1: 11.0, 2: 12.0}
    assert (ours.losses, theirs.losses) == ({1: 1.0, 2: 0.5}, {1: 1.0})
    assert (ours.facts, theirs.facts) == ({}, {"threads": 1})


def test_rates_leave_out_the_warm_up_and_weigh_steps_by_their_time() -> None:
    # Two steps of warm-up: the first has no duration, the second is step_s[0].
    found = figures(outcome("lightwork", 0, [50.0, 4.0, 8.0, 2.0]), warmup_steps=2)
    assert found["windows_per_s"] == 8.0  # of 8, 4 and 16 / 2
    assert found["mean_windows_per_s"] == (32 + 32 + 16) / 14
    assert found["peak_memory_mib"] == 512


def test_ratios_are_taken_within_a_repeat_and_shown_with_their_spread() -> None:
    outcomes = [
        outcome("lightwork", 0, [4.0, 4.0], peak_memory_bytes=100 << 20),
        outcome("peer", 0, [8.0, 8.0], peak_memory_bytes=200 << 20),
        outcome("peer", 1, [2.0, 2.0], peak_memory_bytes=200 << 20),
        outcome("lightwork", 1, [2.0, 2.0], peak_memory_bytes=150 << 20),
        outcome("peer", 2, [9.0, 9.0], peak_memory_bytes=200 << 20),  # nobody to compare with
    ]
    compared = compare(outcomes, warmup_steps=1)
    assert compared["peer"]["windows_per_s"].against == (1.5, 1.0, 2.0)
    assert compared["peer"]["peak_memory_mib"].against == (0.625, 0.5, 0.75)
    assert compared["lightwork"]["windows_per_s"].against is None
    race = {
        "outcomes": outcomes,
        "warmup_steps": 1,
        "machine": {"cores": "2"},
        "versions": {"torch": "2"},
        "command": "python -m benchmarks.peers",
    }
    text = document({"modes": {"steady": race}})
    assert "| peer | 3.00 (2.67 – 12.00) | **1.50 (1.00 – 2.00)** |" in text
    assert "| 200 | **0.62 (0.50 – 0.75)** |" in text
    assert "3 alternating repeats; cores 2; torch 2; `python -m benchmarks.peers`." in text


def test_scores_are_compared_by_their_difference() -> None:
    outcomes = [
        outcome("lightwork", 0, [1.0], scores={"exact_match": 50.0, "f1": 60.0}),
        outcome("peer", 0, [1.0], scores={"exact_match": 52.0, "f1": 59.5}),
    ]
    found = compare(outcomes, 1)["peer"]
    assert found["exact_match"].against == (-2.0, -2.0, -2.0)
    assert found["f1"].against == (0.5, 0.5, 0.5)


def test_waste_counts_padding_and_waiting_for_the_slowest() -> None:
    lengths = [16, 16, 8, 8]
    assert waste(lengths, iter([[[0], [1]], [[2], [3]]]), None) == 0
    assert waste(lengths, iter([[[0], [2]], [[1], [3]]]), None) == 1 - 48 / (2 * 16 * 2)
    assert waste(lengths, iter([[[0, 2], [1, 3]]]), None) == 1 - 48 / (2 * 2 * 16)
    assert waste(lengths, iter([[[0], [1]], [[2], [3]]]), 32) == 1 - 48 / (4 * 32)
    assert waste([9], iter([[[0]]]), None) == 0, "lengths are not rounded, as on a CPU"


@pytest.mark.parametrize("name", list(PEERS))
def test_every_peer_deals_each_window_once(name: str) -> None:
    deal, _ = PEERS[name]
    lengths = [(7 * k) % 61 + 10 for k in range(96)]
    steps = list(deal(lengths, 4, 4, 3))
    assert [len(step) for step in steps] == [4] * 6
    dealt = [window for step in steps for rank in step for window in rank]
    assert sorted(dealt) == list(range(96))
    assert dealt != [w for step in deal(lengths, 4, 4, 4) for rank in step for w in rank]


def test_windows_of_one_length_are_dealt_without_waste_by_everybody() -> None:
    found = rows([64] * 64, [(4, 4)], [1, 2], max_length=128)
    assert [row["plan"] for row in found] == ["lightwork", *PEERS]
    waste_of = {row["plan"]: row["waste"] for row in found}
    full = next(name for name, (_, is_full) in PEERS.items() if is_full)
    assert waste_of.pop(full) == [0.5, 0.5]
    assert all(values == [0, 0] for values in waste_of.values())
    assert {row["plan"]: row["ratio"] for row in found}[full] == [2, 2]


@pytest.mark.processes
def test_a_command_is_measured_and_ended(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    child = "block = bytearray(300 << 20); print('done', end='')"
    nested = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); sys.exit(3)"
    )
    code, wall_s, peak_memory_bytes = run_command([sys.executable, "-c", nested], log, 60)
    assert (code, log.read_text()) == (3, "done")
    assert wall_s > 0
    # A fork begins with the memory of who forks, which among other tests may be much.
    most = max(1000 << 20, 2 * psutil.Process().memory_info().rss)
    assert 300 << 20 < peak_memory_bytes < most, "of the largest descendant"
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    code, wall_s, _ = run_command(sleeper, log, 1)
    assert code == -15
    assert wall_s < 300


def test_the_page_shows_the_results_that_lie_beside_the_program() -> None:
    """No figure is copied by hand: the tables are those that the program makes of the file."""
    results = json.loads((ROOT / "benchmarks/results.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert set(results["modes"]) == {"plan", "steady", "first-step", "whole"}
    for block in document(results).split("### ")[1:]:
        assert block.strip() in page, block.splitlines()[0]
