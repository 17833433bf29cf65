"""Steps side by side: the statistics, the goals, and the contenders in miniature."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks import steps
from benchmarks.paired import Interval, median_interval, ratio
from benchmarks.stepping import CONTENDERS, Lane, Request, measure
from benchmarks.steps import GOALS, document, verdicts
from lightwork.comm.group import Group
from tests.benchmarks.conftest import Course
from tests.benchmarks.documented import documented
from tests.ranks import run_as_processes, run_as_threads

PROGRAM = Path(__file__).with_name("stepped.py")
MINIATURE = ["--pairs", "3", "--warmup", "2", "--ranks", "2"]


def chance(count: int, below: int) -> float:
    """That the median of ``count`` draws from 1 … ``count`` is at most ``below``; odd counts."""
    p, least = below / count, (count + 1) // 2
    terms = (math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(least, count + 1))
    return sum(terms)


def test_the_interval_is_that_of_all_draws() -> None:
    count = 101
    exact_low = next(k for k in range(count) if chance(count, k) >= 0.025)
    exact_high = next(k for k in range(count) if chance(count, k) >= 0.975)
    assert (exact_low, exact_high) == (41, 61)
    values = np.random.default_rng(3).permutation(np.arange(1.0, count + 1))
    found = median_interval(values)
    assert (found.median, found.count) == (51, count)
    assert abs(found.low - exact_low) <= 1
    assert abs(found.high - exact_high) <= 1
    assert found == median_interval(values)


def test_a_ratio_is_taken_within_a_round() -> None:
    drifting = [1.0, 100.0, 3.0, 0.01] * 30
    assert ratio([2 * s for s in drifting], drifting) == Interval(2, 2, 2, 120)
    assert str(ratio([3.0], [2.0])) == "1.500 (1.500 – 1.500)"


def test_goals_are_met_missed_or_not_measured() -> None:
    found = {"none": [0.96] * 100, "all_reduce": [1.0] * 100, "plain-ddp": [0.98] * 100}
    found["tree"] = [1.2] * 100
    assert verdicts(found) == [
        "all_reduce reaches 0.960 (0.960 – 0.960) of the ceiling; goal at least 0.95: met",
        "all_reduce / plain-ddp 1.020 (1.020 – 1.020); goal the upper end at most 1.03: met",
        "tree / all_reduce 1.200 (1.200 – 1.200); goal at most 1.15: missed",
    ]
    few = {name: values[:99] for name, values in found.items()}
    assert all(line.endswith("not measured: 99 rounds, 100 are needed") for line in verdicts(few))
    upper = next(goal for goal in GOALS if goal.upper_end)
    assert upper.line(Interval(1.0, 0.9, 1.04, 100)).endswith("missed")
    assert upper.line(Interval(1.02, 0.9, 1.03, 100)).endswith("met")


def test_every_step_counts_as_the_slowest_rank_and_all_ranks_take_one_order() -> None:
    request = Request("", [], "", ["a", "b", "c"], 8, 2, 6, 1, "")

    def rank(group: Group) -> tuple[list[str], list[list[float]]]:
        order: list[str] = []

        def lane(name: str, slow_rank: int) -> Lane:
            def step(_: Any) -> None:
                order.append(name)
                time.sleep(0.02 if group.rank == slow_rank else 0)

            return Lane(nn.Identity(), iter(range(100)), step)  # type: ignore[arg-type]

        lanes = [lane("a", 0), lane("b", 1), lane("c", 5)]
        return order, measure(group, lanes, request).tolist()

    (first, seconds), (second, other) = run_as_threads(2, rank)
    assert first == second
    assert len(first) == 3 * (2 + 6)
    rounds = [tuple(first[k : k + 3]) for k in range(0, len(first), 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds)) > 2
    assert seconds == other
    assert [len(row) for row in seconds] == [3] * 6
    assert all(min(a, b) >= 0.02 for a, b, _ in seconds), "whichever rank is slow"
    assert min(c for _, _, c in seconds) < 0.02


@pytest.mark.processes
def test_all_contenders_learn_the_same_and_none_sends_nothing(
    course: Course, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    values = {
        "data": {"train": str(course.train), "cache": str(tmp_path / "cache"), "max_length": 80,
                 "stride": 8, "max_question_length": 32},
        "model": {"source": str(course.model), "dropout": 0.1},
        # Epsilon is large, so that weights whose gradient is nearly zero do not follow its sign.
        "train": {"micro_batch_tokens": 160, "learning_rate": 1e-2, "schedule": "constant",
                  "warmup_ratio": 0, "adam_epsilon": 1e-1},
        "launch": {"device": "cpu", "threads": 1},
    }  # fmt: skip
    settings.write_text(json.dumps(values))
    names = [name for name in CONTENDERS if name != "none"]
    ranks = run_as_processes(
        2, f"{PROGRAM}:learn", str(settings), str(tmp_path / "run"), *names,
        timeout_s=200, join=False,
    )  # fmt: skip
    for told in ranks:
        dealt = {json.dumps(told[name]["windows"]) for name in ("none", "tree null", "ddp 0.5")}
        assert len(dealt) == 1
    for halves in zip(*(told["none"]["windows"] for told in ranks), strict=True):
        assert len({window for _, windows in halves for window in windows}) == 8, "one batch"
    first, second = ({n: torch.tensor(told[n]["weights"]) for n in told} for told in ranks)
    for name, weights in first.items():
        assert torch.equal(weights, second[name]) == (name != "none"), name
    for norm in ("0.5", "null"):
        expected = first[f"all_reduce {norm}"]
        for name in ("plain-ddp", "ddp", "tree"):
            torch.testing.assert_close(first[f"{name} {norm}"], expected, rtol=1e-4, atol=1e-5)
        eight = [first[f"{name}-8 {norm}"] for name in ("tree", "all_reduce")]
        torch.testing.assert_close(*eight, rtol=1e-4, atol=1e-5)
        assert (eight[0] - expected).abs().max() > 1e-4, "other dropout"
    assert (first["all_reduce 0.5"] - first["all_reduce null"]).abs().max() > 1e-4, "clipped"


@pytest.mark.long
@pytest.mark.processes
def test_the_commands_measure(
    course: Course,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One after the other: the last shows what the one before has written."""
    shutil.copy(course.train, tmp_path / "train.json")
    monkeypatch.chdir(tmp_path)
    commands = documented("steps")
    *measuring, showing = sorted(commands, key=lambda words: "--table" in words)
    assert len(measuring) >= 3
    for command in measuring:
        batches = [4, 8] if "--data" in command else [8]
        small = ["--data", "train.json", "--batch", ",".join(map(str, batches))]
        small += [*MINIATURE, "--model", str(course.model), "data.max_length=80", "data.stride=8"]
        steps.main([*command, *small])
        shown = capfd.readouterr()
        results = json.loads((tmp_path / "steps.json").read_text())
        names = steps.parser().parse_intermixed_args(command).contenders
        for seconds in results["seconds"].values():
            assert list(seconds) == names
            assert all(len(own) == 3 and min(own) > 0 for own in seconds.values())
        assert list(results["seconds"]) == [str(batch) for batch in batches]
        assert shown.out.strip() == document(results)
        assert "#### 8 windows a step, 3 rounds" in shown.out
        assert "round 0 of 3" in shown.err
    steps.main(showing)
    assert capfd.readouterr().out == shown.out


def test_what_cannot_be_measured_is_said_before_anything_starts(course: Course) -> None:
    wrong = ["--contenders", "tree,rings", "--ranks", "1", "--pairs", "0", "--out", "no/steps.json"]
    with pytest.raises(SystemExit) as end:
        steps.main(wrong)
    for words in (
        "rings is not known; choose from none",
        "--ranks 1",
        "--pairs needs",
        "--out no/st",
    ):
        assert words in str(end.value)
    with pytest.raises(SystemExit, match="nowhere does not exist"):
        steps.main(["--data", str(course.model / "nowhere")])
    with pytest.raises(SystemExit, match=r"train\.batch is not a setting"):
        steps.main(["--data", str(course.train), "train.batch=3"])
