"""What whole runs save, and what they make of a checkpoint that is not what was trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lightwork.manifest import MANIFEST, describe, manifest, problem_of, read_manifest
from lightwork.settings import load_settings, read_run
from lightwork.train.checkpoint import Checkpoints
from tests.ranks import run_as_processes
from tests.runs.conftest import World, checkpoint_of

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
SHORT = ("train.max_steps=6", "train.evaluate_every_steps=3", "checkpoint.every_steps=2")


def state_of(checkpoint: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((checkpoint / "state.json").read_bytes())
    return state


@pytest.fixture(scope="module")
def run(world: World) -> Path:
    """Two ranks; saved after steps 2, 3, 4 and 6, scored after 3 and 6."""
    return world.train(2, "saved", *SHORT, "checkpoint.keep=9")


def test_what_is_in_a_checkpoint(run: Path) -> None:
    steps = [step for step, _ in Checkpoints(run).all()]
    assert steps == [2, 3, 4, 6]
    for step in steps:
        checkpoint = checkpoint_of(run, step)
        assert problem_of(checkpoint) is None
        assert read_manifest(checkpoint)["run"] == read_run(run).run_id
        state = state_of(checkpoint)
        assert state["step"] == step
        wanted = {"strategy": "all_reduce", "ranks": 2, "bucket_bytes": 16 * 1024}
        assert state["sync"] == wanted
        assert len(state["checksum"]) == 16
        text = checkpoint.parent.parent / "settings-of-it.yaml"
        text.write_text(state["settings"])
        assert load_settings(text).train.max_steps == 6
    scores = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    first, second = scores
    assert state_of(checkpoint_of(run, 3))["best"] is None
    assert state_of(checkpoint_of(run, 4))["best"] == {"step": 3, "score": first["f1"]}
    assert state_of(checkpoint_of(run, 6))["best"] == {"step": 3, "score": first["f1"]}
    best = Checkpoints(run).best()
    assert best == checkpoint_of(run, 6 if second["f1"] > first["f1"] else 3).resolve()
    sums = [state_of(checkpoint_of(run, step))["checksum"] for step in steps]
    assert len(set(sums)) == len(sums)


def test_a_checkpoint_is_the_model_of_another_run(world: World, run: Path) -> None:
    source = checkpoint_of(run, 4)
    barely = ("train.max_steps=1", "train.learning_rate=1e-30", "train.weight_decay=0")
    other = world.train(2, "from-checkpoint", f"model.source={source}", *barely)
    ours, theirs = (
        load_file(checkpoint / "model/model.safetensors")
        for checkpoint in (checkpoint_of(other), source)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("part", ["model/model.safetensors", "optimizer.safetensors"])
def test_what_verifies_but_is_not_what_was_trained_is_refused(
    world: World, tmp_path: Path, part: str
) -> None:
    run = world.train(1, f"swapped-{part[:5]}", *SHORT)
    checkpoint = checkpoint_of(run)
    tensors = load_file(checkpoint / part)
    name = next(name for name in tensors if name.endswith(("weight", "exp_avg")))
    tensors[name].view(-1)[0] += 1
    save_file(tensors, checkpoint / part, {"format": "pt"})
    facts = {name: value for name, value in read_manifest(checkpoint).items() if name != "files"}
    (checkpoint / MANIFEST).write_bytes(manifest(describe(checkpoint), **facts))
    assert problem_of(checkpoint) is None
    with pytest.raises(RuntimeError, match="CheckpointError: what rank 0 loaded from") as caught:
        world.train(2, run.name, *SHORT)
    assert str(checkpoint) in str(caught.value)


def test_a_full_disk_ends_all_ranks_and_older_checkpoints_stay(world: World) -> None:
    run = world.folder / "full"
    arguments = (str(world.settings), str(run), *SHORT)
    with pytest.raises(RuntimeError, match="CheckpointError: cannot write") as caught:
        run_as_processes(2, f"{PLANTED}:full_disk", *arguments, timeout_s=120, join=False)
    assert "step-000004 (No space left on device); older ones are untouched" in str(caught.value)
    for rank in (0, 1):
        records = (run / f"metrics/rank{rank}.jsonl").read_text().splitlines()
        assert json.loads(records[-1])["step"] == 5, "the step after the one that was to be saved"
    assert [step for step, _ in Checkpoints(run).all()] == [2, 3]
    assert not list((run / "checkpoints").glob(".*"))
    world.train(1, run.name, *SHORT)
    assert [step for step, _ in Checkpoints(run).all()] == [3, 4, 6]


def test_checkpoints_that_are_gone_are_missed(world: World) -> None:
    run = world.train(2, "emptied", *SHORT)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RuntimeError, match="the checkpoints of this run are gone from"):
        world.train(2, "emptied", *SHORT)
    assert not (run / "checkpoints").exists()
