"""What is as promised passes, at any number of ranks and with every strategy."""

from __future__ import annotations

import re

import pytest

from lightwork.verify.checking import ROWS
from tests.verify.conftest import Verified

pytestmark = pytest.mark.processes
ALONE = "not checked: one rank"


def unchecked(rows: list[list[str | bool | None]]) -> dict[str | bool | None, str | bool | None]:
    assert [row for row, _, _ in rows] == list(ROWS)
    failed = [row for row in rows if row[1] is False]
    assert failed == []
    return {row: found for row, passed, found in rows if passed is None}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("strategy", ["all_reduce", "ddp", "tree"])
def test_every_row_passes(verified: Verified, ranks: int, strategy: str) -> None:
    rows = verified(ranks, "programs:verdicts", f"sync.strategy={strategy}")
    expected = {} if strategy == "tree" else {ROWS[-1]: f"not promised by {strategy}"}
    assert unchecked(rows) == expected
    found = {row: text for row, _, text in rows}
    assert found["every window once"].endswith("8 batches of 8, the last of 4")
    assert "batches of 8 and 4" in found["gradients"]
    assert re.match(r"2\d windows of 29, each once; .* on . ranks are those", found["evaluation"])
    assert "3 steps changed 39 of 39 tensors" in found["replicas after steps"]
    assert re.search(r"the checksum [0-9a-f]{16} at 1 … ", found[ROWS[-1]]) or expected


@pytest.mark.parametrize("strategy", ["all_reduce", "ddp", "tree"])
def test_one_rank_is_told_what_it_cannot_see(verified: Verified, strategy: str) -> None:
    rows = verified(1, "programs:verdicts", f"sync.strategy={strategy}")
    assert unchecked(rows) == {
        "initial weights": ALONE,
        "evaluation": ALONE,
        "replicas after steps": ALONE,
        ROWS[-1]: ALONE if strategy == "tree" else f"not promised by {strategy}",
    }


def test_without_held_out_questions(verified: Verified) -> None:
    rows = verified(2, "programs:verdicts", "data.dev=null")
    assert unchecked(rows)["evaluation"] == "not checked: there is no data.dev"


def test_a_frozen_model_and_more_ranks_than_shares(verified: Verified) -> None:
    rows = verified(3, "programs:verdicts", "model.freeze=encoder", "train.shares=2")
    assert set(unchecked(rows)) == {ROWS[-1]}
    assert "changed 2 of 39 tensors" in {row: text for row, _, text in rows}["replicas after steps"]


def test_large_batches_are_made_smaller_and_small_data_is_not_shuffled(verified: Verified) -> None:
    rows = verified(2, "programs:verdicts", "train.batch_size=64", "train.max_grad_norm=1e-3")
    found = {row: text for row, _, text in rows}
    assert (
        unchecked(rows)["shuffles"] == "not checked: 60 windows in 1 batch are too few to shuffle"
    )
    assert "batches of 16 and 12 (instead of train.batch_size 64)" in found["gradients"]
