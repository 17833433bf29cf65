"""From steps to examples: the windows that a rank really had, and their ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightwork.assembly.suspects import Plan, named, with_ids
from lightwork.data.loader import Cutting, Loader
from lightwork.data.plan import assign
from lightwork.data.store import Columns
from lightwork.report.finding import Finding

COUNT = 203
DRAWN = np.random.default_rng(3)
TEXT = b"".join(f"q{number:03}".encode() for number in range(COUNT))
STORE = Columns(
    {
        "tokens": DRAWN.integers(5, 60, COUNT).astype(np.int32),
        "weight": np.ones(COUNT, np.float32),
        "example": np.arange(COUNT, dtype=np.int32)[::-1].copy(),
        "example_id": (np.frombuffer(TEXT, np.uint8), np.arange(COUNT + 1, dtype=np.int64) * 4),
    }
)
CUTTING = Cutting(seed=9, batch_size=20, shares=4, micro_batch_tokens=200, round_to=8)
BATCHES = 11


def finding(step: int, rank: int | None, *windows: int) -> Finding:
    return Finding("spike", "it jumps", "look", 0.0, 1.0, rank, at_steps=(step,), windows=windows)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("step", [1, 7, BATCHES, BATCHES + 1, 3 * BATCHES - 1])
def test_the_windows_are_those_that_each_rank_had(ranks: int, step: int) -> None:
    plan, together = Plan(STORE, CUTTING, ranks), []
    for rank, hosted in enumerate(assign(CUTTING.shares, ranks)):
        columns = (STORE.column("tokens"), STORE.column("weight"))
        loader = Loader(*columns, CUTTING, hosted, lambda _windows, _padded: None)
        (work,) = loader.work(step, step)
        assert plan.windows(step, rank) == work.windows
        together += work.windows
    assert sorted(plan.windows(step, None)) == sorted(together)


def test_windows_that_the_records_name_come_before_the_whole_step() -> None:
    plan = Plan(STORE, CUTTING, 2)
    assert with_ids(finding(3, 1, 200, 0), plan).examples == ("q002", "q202")
    whole = with_ids(finding(3, 1), plan)
    assert list(whole.windows) == plan.windows(3, 1)
    assert whole.examples == tuple(f"q{COUNT - 1 - window:03}" for window in whole.windows)


def test_what_no_single_step_shows_is_left_as_it_is(tmp_path: Path) -> None:
    slow = Finding("straggler", "it is slow", "look", 0.1, 1.1, 1)
    assert with_ids(slow, None) is slow
    assert named([slow], tmp_path / "nowhere", 2) == [slow]


def test_a_run_without_a_checkpoint_tells_how_to_come_by_the_ids(tmp_path: Path) -> None:
    (unnamed,) = named([finding(3, None, 7)], tmp_path, 2)
    assert (unnamed.examples, unnamed.windows) == ((), (7,))
    assert "once the run has a checkpoint" in unnamed.todo
