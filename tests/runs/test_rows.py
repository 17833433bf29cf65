"""Whole runs that send only the touched rows of the word embeddings, and runs that send all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ranks import run_as_processes
from tests.runs.conftest import World, weights_digest

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
SOME = ("train.max_steps=8", "train.shares=4", "model.dropout=0.1")


def test_with_the_tree_both_have_the_same_bits(world: World) -> None:
    rows = world.train(3, "rows-tree", *SOME, "sync.strategy=tree")
    whole = world.train(2, "whole-tree", *SOME, "sync.strategy=tree", "sync.rows=off")
    assert weights_digest(rows) == weights_digest(whole)


def test_both_learn_the_same_with_decay_and_moments(
    world: World, losses: Callable[[Path], list[float]]
) -> None:
    heavy = ("train.weight_decay=0.5", "train.max_grad_norm=0.1")
    rows = world.train(2, "rows", *SOME, *heavy)
    whole = world.train(2, "whole", *SOME, *heavy, "sync.rows=off")
    assert losses(rows) == pytest.approx(losses(whole), rel=1e-6)


def test_rows_that_were_forgotten_end_the_run_in_words(world: World) -> None:
    arguments = (str(world.settings), str(world.folder / "forgotten"), *SOME)
    with pytest.raises(RuntimeError, match=r"set sync\.rows=off for this model"):
        run_as_processes(2, f"{PLANTED}:forget_a_row", *arguments, timeout_s=120, join=False)
    assert not list((world.folder / "forgotten/checkpoints").glob("*"))


def test_a_rank_without_data_still_sends_as_many_rows_as_the_others(world: World) -> None:
    arguments = (str(world.settings), str(world.folder / "unread"), *SOME)
    with pytest.raises(RuntimeError, match=r"step 3 failed, nothing of it was applied\. rank 1: "):
        run_as_processes(2, f"{PLANTED}:no_data_for_step_3", *arguments, timeout_s=120, join=False)
