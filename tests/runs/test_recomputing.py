"""Whole runs with ``train.activation_checkpointing``: not one bit is another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.conftest import World
from tests.runs.conftest import weights_digest as digest
from tests.runs.test_tree import LAST, go_back, instead, ledger

pytestmark = pytest.mark.processes
AGAIN = "train.activation_checkpointing=true"


@pytest.fixture(scope="module")
def plain(world: World) -> Path:
    return world.train(1, "kept", *instead())


def files(run: Path) -> dict[str, bytes]:
    """All files of the last checkpoint's model, whole."""
    folder = run / "checkpoints" / f"step-{LAST:06d}" / "model"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_tree_gives_the_same_bits(world: World, plain: Path, ranks: int) -> None:
    run = world.train(ranks, f"again{ranks}", *instead(AGAIN))
    assert [digest(run, step) for step in (1, LAST)] == [digest(plain, step) for step in (1, LAST)]
    assert files(run) == files(plain), "a saved model shows how it was computed"
    scores = [(path / "evaluations.jsonl").read_text() for path in (run, plain)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("strategy", ["all_reduce", "ddp"])
def test_other_strategies_give_the_same_bits_as_without(world: World, strategy: str) -> None:
    settings = instead(f"sync.strategy={strategy}", "train.max_steps=3")
    kept, again = (
        world.train(2, f"{name}-{strategy}", *settings, *more)
        for name, more in (("kept", []), ("again", [AGAIN]))
    )
    assert digest(kept, 3) == digest(again, 3)


@pytest.mark.parametrize("what", ["embeddings", "encoder"])
def test_frozen_parts_give_the_same_bits_as_without(world: World, what: str) -> None:
    settings = instead(f"model.freeze={what}", "train.max_steps=3")
    kept, again = (
        world.train(ranks, f"{name}-{what}", *settings, *more)
        for ranks, name, more in ((1, "kept", []), (2, "again", [AGAIN]))
    )
    assert digest(kept, 3) == digest(again, 3)


def test_it_may_change_on_the_way(world: World, plain: Path) -> None:
    run = world.train(2, "again-later", *instead(AGAIN))
    go_back(run, 5)
    world.train(1, run.name, *instead())
    assert digest(run) == digest(plain)
    assert ledger(run) == []
