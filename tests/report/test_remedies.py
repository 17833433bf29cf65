"""What is advised, with the gain that the records allow to tell; and who is not to blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightwork.report.explaining import explained
from lightwork.report.finding import Finding
from lightwork.report.findings import findings
from lightwork.report.steps import Choices, read_steps
from tests.report.stepped import CALM, TOKENS, write_steps

SLOW_LINK = {"transfer": 0.2}


def found_in(run: Path, *ranks: dict[str, Any], choices: Choices | None = None) -> list[Finding]:
    write_steps(run, list(ranks))
    return findings(replace(read_steps(run), choices=choices or Choices()))


def advice(run: Path, *ranks: dict[str, Any], choices: Choices | None = None) -> str:
    (finding,) = found_in(run, *ranks, choices=choices)
    assert finding.kind == "communication"
    return finding.todo


def test_a_larger_batch_makes_fewer_messages(tmp_path: Path) -> None:
    """0.53 s a step, 0.2 s of it exposed: 2 x 0.53 s of steps become 0.86 s."""
    assert "1.23 times the windows per second" in advice(tmp_path, SLOW_LINK, SLOW_LINK)


def test_rows_that_were_turned_off_come_first(tmp_path: Path) -> None:
    off = Choices(strategy="all_reduce", rows="off")
    assert advice(tmp_path / "a", SLOW_LINK, SLOW_LINK, choices=off).startswith("sync.rows=auto")
    for choices in (Choices("all_reduce", "auto"), Choices("ddp", "off")):
        folder = tmp_path / f"{choices.strategy}"
        assert "sync.rows" not in advice(folder, SLOW_LINK, SLOW_LINK, choices=choices)


def test_another_strategy_is_one_that_the_run_does_not_have(tmp_path: Path) -> None:
    for strategy, other in (("all_reduce", "ring"), ("tree", "all_reduce"), ("ring", "all_reduce")):
        told = advice(tmp_path / strategy, SLOW_LINK, SLOW_LINK, choices=Choices(strategy))
        assert f"another sync.strategy, such as {other}: lightwork bench sync" in told


def test_messages_that_set_out_too_late_want_smaller_buckets(tmp_path: Path) -> None:
    late = {**SLOW_LINK, "bucket_ready_s": [0.29, 0.3], "micro_batches": 1}
    told = advice(tmp_path / "late", late, late)
    assert "a smaller sync.bucket_bytes: now 2 messages" in told
    assert "at most 0.2 s a step could hide there" in told
    early = {**SLOW_LINK, "bucket_ready_s": [0.12, 0.3], "micro_batches": 1}
    assert "bucket_bytes" not in advice(tmp_path / "early", early, early)
    many = {**early, "bucket_ready_s": [0.12] * 200}
    assert "a larger sync.bucket_bytes: now 200 messages of 450 kB" in advice(
        tmp_path / "many", many, many
    )
    inside = {**SLOW_LINK, "bucket_ready_s": []}  # of PyTorch's wrapper
    assert "bucket_bytes" not in advice(tmp_path / "inside", inside, inside)


def test_cards_that_bring_nothing_are_counted(tmp_path: Path) -> None:
    hopeless = {"transfer": 2.0}
    assert "1 card instead of 2 would be as fast" in advice(tmp_path / "a", hopeless, hopeless)
    told = advice(tmp_path / "b", SLOW_LINK, SLOW_LINK)
    assert "a card less would make a step 1.25 times as long" in told


def slow(factor: float) -> dict[str, Any]:
    return {part: factor * seconds for part, seconds in CALM.items()}


@pytest.mark.parametrize(
    ("ranks", "factor", "told"),
    [
        (2, 1.5, "leaving it out gains nothing"),
        (8, 2.0, "without it (--devices) the others would be 1.75 times as fast as now"),
    ],
)
def test_a_slow_card_is_dropped_where_that_gains(
    tmp_path: Path, ranks: int, factor: float, told: str
) -> None:
    waits = {"wait": (factor - 1) * sum(CALM.values())}
    (finding,) = found_in(tmp_path, *([waits] * (ranks - 1)), slow(factor))
    assert (finding.kind, finding.rank, finding.part) == ("straggler", ranks - 1, "backward")
    assert finding.factor == pytest.approx(factor, rel=0.03)
    assert told in finding.todo


def test_a_rank_for_which_nobody_waits_is_no_straggler(tmp_path: Path) -> None:
    """With fewer tokens, what is fixed makes each dearer."""
    light = {"padded_tokens": TOKENS // 2, "real_tokens": TOKENS // 2, "backward": 0.15}
    assert [f.kind for f in found_in(tmp_path, {}, light)] == ["compute"]


def turns(mine: int) -> Callable[[int], float]:
    return lambda step: 0.2 if step % 2 == mine else 0.3


def test_ranks_that_are_slow_in_turn_have_no_unequal_shares(tmp_path: Path) -> None:
    """As on a machine that others use too: all wait, and no share is larger."""
    waits = [{"backward": turns(rank), "wait": 0.05} for rank in (0, 1)]
    assert [f.kind for f in found_in(tmp_path, *waits)] == ["compute"]


def test_the_rank_that_lacks_data_most_is_said_but_is_no_straggler(tmp_path: Path) -> None:
    (finding,) = found_in(tmp_path / "one", {"wait": 0.2}, {"data": 0.2})
    assert (finding.kind, finding.rank) == ("data", None)
    assert finding.words.endswith(", most of it rank 1")


def test_waiting_for_data_now_and_then_counts_with_all_steps(tmp_path: Path) -> None:
    """One step in six waits for six."""
    now_and_then = {"data": lambda step: 0.5 if step % 6 == 0 else 0.0}
    (finding,) = found_in(tmp_path, now_and_then, now_and_then)
    assert finding.kind == "data"


def test_steps_that_were_looked_into_do_not_count(tmp_path: Path) -> None:
    looked = {
        "transfer": lambda step: 0.9 if 5 < step < 50 else 0.0,
        "profiled": lambda step: 5 < step < 50,
    }
    write_steps(tmp_path, [looked, {"transfer": looked["transfer"]}])
    steps, found = explained(tmp_path)
    assert [int(n) for n in steps.numbers] == [4, 5, *range(50, 61)]
    assert [f.kind for f in found] == ["compute"]
