"""Whole runs with train.deterministic: the switches on every rank, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ranks import run_as_processes
from tests.runs.conftest import World, fingerprint_of, weights_digest

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
SAID = "kernels are deterministic and without TF32 (train.deterministic"
SHORT = ("train.max_steps=4", "model.dropout=0.1")


def log(run: Path) -> str:
    return (run / "logs/rank0.log").read_text()


def test_every_rank_is_deterministic_and_the_bits_are_the_same_again(world: World) -> None:
    runs = [
        world.train(2, f"deterministic{number}", "train.deterministic=true", *SHORT)
        for number in (1, 2)
    ]
    found = fingerprint_of(runs[0])  # a list wherever ranks differ
    assert found["deterministic"] is True
    assert found["matmul_precision"] == "ieee"
    assert weights_digest(runs[0]) == weights_digest(runs[1])
    assert log(runs[0]).count(f"{SAID})\n") == 1


def test_by_default_nothing_is_switched(world: World) -> None:
    run = world.train(2, "as-pytorch-has-it", *SHORT)
    found = fingerprint_of(run)
    assert (found["deterministic"], found["matmul_precision"]) == (False, "none")
    assert SAID not in log(run)


def test_the_tree_implies_it(world: World) -> None:
    run = world.train(2, "tree-implies", "sync.strategy=tree", *SHORT)
    found = fingerprint_of(run)
    assert (found["deterministic"], found["matmul_precision"]) == (True, "ieee")
    assert log(run).count(f"{SAID}, as sync.strategy tree implies)\n") == 1


@pytest.mark.parametrize(
    "chosen", ["train.deterministic=true", "sync.strategy=tree", "sync.strategy=ddp", ""]
)
def test_an_operation_without_a_deterministic_form(world: World, chosen: str) -> None:
    name = f"refused-{chosen}"
    both = ["train.deterministic=true"] if chosen.endswith("ddp") else []
    arguments = (str(world.settings), str(world.folder / name), *filter(None, [chosen]), *both)
    planted = f"{PLANTED}:use_an_operation_without_order"
    if not chosen:
        run_as_processes(2, planted, *arguments, timeout_s=120, join=False)
        return
    with pytest.raises(RuntimeError) as caught:
        run_as_processes(2, planted, *arguments, timeout_s=120, join=False)
    told = str(caught.value).splitlines()[-1]
    assert "StepError: step 1 failed" in told
    assert "the model uses put_, which PyTorch cannot compute" in told
    assert "train.deterministic=false" in told
    assert not list((world.folder / name / "checkpoints").glob("*"))
