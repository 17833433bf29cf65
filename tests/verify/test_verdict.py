"""All ranks come to one verdict, whatever happens on one of them, and nobody waits."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest
import torch

from lightwork.comm.group import Group
from lightwork.errors import PeerLostError, StepError
from lightwork.verify.sums import difference, tensor_sums, whole_sum
from lightwork.verify.verdict import (
    RowFailedError,
    Verdict,
    counted,
    decide,
    gathered,
    listed,
    one_rank,
)
from tests.ranks import run_as_threads


def raising(group: Group, on: int, error: Exception) -> Any:
    if group.rank == on:
        raise error
    return group.rank


def test_what_every_rank_measured() -> None:
    assert run_as_threads(3, lambda group: gathered(group, lambda: group.rank)) == [[0, 1, 2]] * 3


def test_a_failure_on_one_rank_is_told_on_all_and_the_next_message_is_right() -> None:
    def program(group: Group) -> list[Any]:
        with pytest.raises(RowFailedError) as caught:
            gathered(group, lambda: raising(group, 2, KeyError("a\nb")))
        return [str(caught.value), gathered(group, lambda: group.rank)]

    told = run_as_threads(3, program)
    assert told == [told[0]] * 3
    assert told[0][0].startswith("rank 2: KeyError: 'a\\nb' (test_verdict.py, line ")
    assert told[0][1] == [0, 1, 2]


def test_what_all_say_is_said_once() -> None:
    def program(group: Group) -> str:
        with pytest.raises(RowFailedError) as caught:
            gathered(group, lambda: raising(group, group.rank, StepError("step 3 failed")))
        return str(caught.value)

    assert run_as_threads(2, program) == ["step 3 failed"] * 2


def test_nobody_is_asked_where_nobody_can_answer() -> None:
    group = Group.alone()
    with pytest.raises(PeerLostError):
        decide(group, "row", lambda: raising(group, 0, PeerLostError("gone")))
    alone = StepError("backward failed")
    alone.joint = False
    with pytest.raises(StepError):
        decide(group, "row", lambda: raising(group, 0, alone))


@pytest.mark.parametrize("bad", [0, 1])
def test_one_failed_rank_fails_the_row(bad: int) -> None:
    def program(group: Group) -> tuple[Any, ...]:
        passed = group.rank != bad
        return astuple(decide(group, "row", lambda: Verdict("row", passed, f"by {group.rank}")))

    assert run_as_threads(2, program) == [("row", False, f"by {bad}")] * 2


def test_an_exception_of_a_check_is_a_verdict_on_all_ranks() -> None:
    def program(group: Group) -> tuple[Any, ...]:
        def check() -> Verdict:
            raising(group, 1, ValueError("odd"))
            return one_rank("row")

        return astuple(decide(group, "row", check))

    first, second = run_as_threads(2, program)
    assert first == second
    assert first[:2] == ("row", False)
    assert first[2].startswith("rank 1: ValueError: odd (test_verdict.py, line ")


def test_words() -> None:
    assert listed([3, 1]) == "3, 1"
    assert listed(list(range(1200))) == "0, 1, 2, 3, 4 … (1,200 in all)"
    assert [counted(1, "batch"), counted(2, "batch"), counted(1200, "rank")] == [
        "1 batch", "2 batches", "1,200 ranks",
    ]  # fmt: skip


def test_sums_see_every_bit_shape_and_dtype() -> None:
    zeros = torch.zeros(2, 3)
    alike = [zeros, -zeros, zeros.double(), zeros.view(3, 2), zeros.bfloat16(), zeros[:, :2]]
    alike += [torch.zeros(()), torch.zeros(0), torch.zeros(1, dtype=torch.bool)]
    sums = [tensor_sums({"t": tensor})["t"] for tensor in alike]
    assert len(set(sums)) == len(sums)
    assert tensor_sums({"t": zeros.T.contiguous().T}) == tensor_sums({"t": zeros})
    assert whole_sum({"a": "1", "b": "2"}) != whole_sum({"a": "2", "b": "1"})


def test_the_first_tensor_that_differs_is_named() -> None:
    same = {"a": "1", "b": "2", "c": "3"}
    assert difference([same, same]) == ""
    told = difference([same, {**same, "b": "9", "c": "9"}, {"a": "1", "b": "2"}])
    assert told == "b differs between rank 0 and rank 1, the first of 2 of 3 tensors"
    assert difference([{}, same, same]).startswith("a differs between rank 0 and ranks 1, 2,")
