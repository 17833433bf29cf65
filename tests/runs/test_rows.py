"""Whole runs that send only the touched rows of the word embeddings, and runs that send all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.ranks import run_as_processes
from tests.runs.conftest import World, weights_digest

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
SOME = ("train.max_steps=8", "train.shares=4", "model.dropout=0.1")
ON = "sync.rows=on"
"""The table is too small for auto."""


def test_with_the_tree_both_have_the_same_bits(world: World) -> None:
    rows = world.train(3, "rows-tree", *SOME, ON, "sync.strategy=tree")
    whole = world.train(2, "whole-tree", *SOME, "sync.strategy=tree", "sync.rows=off")
    assert weights_digest(rows) == weights_digest(whole)


def test_both_learn_the_same_with_decay_and_moments(
    world: World, losses: Callable[[Path], list[float]]
) -> None:
    heavy = ("train.weight_decay=0.5", "train.max_grad_norm=0.1")
    some = ("train.max_steps=12", *SOME[1:])
    rows = world.train(2, "rows", ON, *some, *heavy)
    whole = world.train(2, "whole", *some, *heavy, "sync.rows=off")
    assert losses(rows) == pytest.approx(losses(whole), rel=1e-6)
    torch.testing.assert_close(words(rows), words(whole), rtol=1e-5, atol=1e-7)


def words(run: Path) -> Tensor:
    """The table of word embeddings of the newest checkpoint."""
    newest = max((run / "checkpoints").iterdir())
    (found,) = [
        tensor
        for name, tensor in load_file(newest / "model/model.safetensors").items()
        if name.endswith("word_embeddings.weight")
    ]
    return found


def test_on_ends_before_training_where_it_is_not_possible(world: World) -> None:
    with pytest.raises(RuntimeError, match=r"sync\.rows is on.*because it does not learn"):
        world.train(2, "impossible", *SOME, ON, "model.freeze=embeddings")
    assert not list((world.folder / "impossible/checkpoints").glob("*"))


def test_rows_that_were_forgotten_end_the_run_in_words(world: World) -> None:
    arguments = (str(world.settings), str(world.folder / "forgotten"), *SOME, ON)
    with pytest.raises(RuntimeError, match=r"set sync\.rows=off for this model"):
        run_as_processes(2, f"{PLANTED}:forget_a_row", *arguments, timeout_s=120, join=False)
    assert not list((world.folder / "forgotten/checkpoints").glob("*"))


def test_a_rank_without_data_still_sends_as_many_rows_as_the_others(world: World) -> None:
    arguments = (str(world.settings), str(world.folder / "unread"), *SOME, ON)
    with pytest.raises(RuntimeError, match=r"step 3 failed, nothing of it was applied\. rank 1: "):
        run_as_processes(2, f"{PLANTED}:no_data_for_step_3", *arguments, timeout_s=120, join=False)
