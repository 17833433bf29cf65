"""Each cause is told from the others, with its evidence, and nothing where nothing is wrong."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lightwork.errors import RunError
from lightwork.report.explaining import as_json, explained, show
from lightwork.report.finding import Finding
from lightwork.report.steps import FEWEST_STEPS, FIRST_STEPS, read_steps
from tests.report.stepped import write_steps

QUIET: dict[str, Any] = {}
SLOW = {"forward": 0.16, "backward": 0.32, "optimizer": 0.032, "other": 0.008, "sync": 0.008}
FEW_AND_MANY: dict[str, Any] = {  # 80 ms for each micro-batch, 10 us for each token
    "micro_batches": lambda step: 3 + step % 4,
    "padded_tokens": lambda step: 1000 + 100 * (step % 7),
    "real_tokens": lambda step: 980 + 98 * (step % 7),
}
CAUSES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "alone": ([QUIET], ["compute"]),
    "nothing": ([QUIET] * 4, ["compute"]),
    "a slow rank": (
        [{"wait": 0.19}, {"wait": 0.19}, SLOW, {"wait": 0.19}], ["straggler"],
    ),
    "a slow loader on one rank": (
        [{"wait": 0.2}, {"data": 0.2}], ["data"],
    ),
    "a slow loader": ([{"data": 0.15}] * 2, ["data"]),
    "a slow link": ([{"transfer": 0.2}] * 2, ["communication"]),
    "unequal shares": (
        [
            {"padded_tokens": 2600, "real_tokens": 2500, "forward": 0.13, "backward": 0.26},
            {"padded_tokens": 1400, "real_tokens": 1350, "forward": 0.07, "backward": 0.14,
             "wait": 0.18},
        ],
        ["imbalance"],
    ),
    "padding": ([{"real_tokens": 1200}] * 2, ["padding"]),
    "saves": ([{"duties_s": 0.5}] * 2, ["duties"]),
    "a bad card": ([QUIET, {"rank_loss": 7.0}], ["bad_shard"]),
}  # fmt: skip


def found_in(run: Path) -> list[Finding]:
    return explained(run)[1]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_is_found_and_no_other(tmp_path: Path, cause: str, seed: int) -> None:
    ranks, kinds = CAUSES[cause]
    write_steps(tmp_path, ranks, seed=seed)
    assert sorted(finding.kind for finding in found_in(tmp_path)) == sorted(kinds)


def test_a_slow_rank_is_named_with_its_factor_and_part(tmp_path: Path) -> None:
    write_steps(tmp_path, CAUSES["a slow rank"][0])
    (finding,) = found_in(tmp_path)
    assert finding.rank == 2
    assert finding.factor == pytest.approx(1.6, rel=0.1)
    assert f"rank 2 takes {finding.factor:.2f} times as long as the others" in finding.words
    assert "most of it in backward" in finding.words
    assert finding.saved_s == pytest.approx(0.19, rel=0.1)


def test_micro_batches_that_cost_more_than_their_tokens(tmp_path: Path) -> None:
    write_steps(tmp_path, [FEW_AND_MANY])
    lines = (tmp_path / "metrics/rank0.jsonl").read_text().splitlines()
    with (tmp_path / "metrics/rank0.jsonl").open("w") as file:
        for line in map(json.loads, lines):
            line["forward_s"] = 0.08 * line["micro_batches"]
            line["backward_s"] = 1e-5 * line["padded_tokens"]
            line["step_s"] = line["forward_s"] + line["backward_s"] + 0.03
            file.write(json.dumps(line) + "\n")
    (finding,) = found_in(tmp_path)
    assert finding.kind == "micro_batches"
    assert "each costs 80 ms however small it is" in finding.words


def test_the_dearest_comes_first_with_what_it_would_gain(tmp_path: Path) -> None:
    write_steps(tmp_path, [{"transfer": 0.33, "data": 0.11}] * 2)
    first, second = found_in(tmp_path)
    assert (first.kind, second.kind) == ("communication", "data")
    assert first.speedup == pytest.approx(0.77 / 0.44, rel=0.05)


def test_only_the_newest_start_counts_and_not_its_first_steps(tmp_path: Path) -> None:
    write_steps(tmp_path, [{"transfer": 0.9}] * 2, attempt=1)
    write_steps(tmp_path, [QUIET] * 2, count=20, attempt=2)
    steps = read_steps(tmp_path)
    assert list(steps.numbers) == list(range(1 + FIRST_STEPS, 21))
    assert [finding.kind for finding in found_in(tmp_path)] == ["compute"]


def test_a_rank_of_an_earlier_start_is_not_there_any_more(tmp_path: Path) -> None:
    write_steps(tmp_path, [QUIET] * 3, attempt=1)
    write_steps(tmp_path, [QUIET] * 2, attempt=2)
    assert read_steps(tmp_path).ranks == 2


def test_too_few_steps_and_other_versions_are_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no records of steps"):
        read_steps(tmp_path)
    write_steps(tmp_path, [QUIET], count=FIRST_STEPS + FEWEST_STEPS - 1)
    with pytest.raises(RunError, match=f"{FEWEST_STEPS} are needed"):
        read_steps(tmp_path)
    write_steps(tmp_path / "old", [QUIET])
    file = tmp_path / "old/metrics/rank0.jsonl"
    file.write_text(file.read_text().replace('"version": 2', '"version": 1'))
    with pytest.raises(RunError, match="another version of lightwork"):
        read_steps(tmp_path / "old")


@pytest.mark.parametrize("what", ["missing", "empty", "bytes"])
def test_a_rank_without_records_is_not_taken_for_one_that_is_not_there(
    tmp_path: Path, what: str
) -> None:
    write_steps(tmp_path, [QUIET] * 2)
    file = tmp_path / "metrics/rank1.jsonl"
    file.unlink()
    if what != "missing":
        file.write_bytes(b"" if what == "empty" else bytes(range(256)) * 99)
    with pytest.raises(RunError, match="of the 32 windows of step 60, those of 1 ranks hold 16"):
        read_steps(tmp_path)


def test_half_a_line_at_the_end_is_left_out(tmp_path: Path) -> None:
    write_steps(tmp_path, [QUIET] * 2)
    with (tmp_path / "metrics/rank1.jsonl").open("a") as file:
        file.write('{"step": 61, "att')
    assert read_steps(tmp_path).numbers[-1] == 60


def test_a_long_run_is_explained_from_its_end(tmp_path: Path) -> None:
    write_steps(tmp_path, [QUIET] * 2, count=4000)
    steps = read_steps(tmp_path, tail_bytes=100_000)
    assert 50 < len(steps.numbers) < 400
    assert steps.numbers[-1] == 4000


def test_what_is_shown_and_given_to_programs(tmp_path: Path) -> None:
    write_steps(tmp_path, CAUSES["a slow rank"][0])
    steps, found = explained(tmp_path)
    text = StringIO()
    show(Console(file=text, width=100), steps, found)
    shown = text.getvalue()
    assert "straggler: rank 2 takes" in shown
    assert "do: look at that card" in shown
    assert "times as fast" in shown
    assert "rank 3" in shown
    entry = json.loads(json.dumps(as_json(steps, found)))
    assert entry["findings"][0]["rank"] == 2
    assert len(entry["seconds"]["wait"]) == entry["ranks"] == 4
