"""Runs that end early: a dry run, patience, a frozen model; and what they leave to look at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightwork.settings import load_settings, open_run
from lightwork.train.checkpoint import Checkpoints
from tests.runs.conftest import World

pytestmark = pytest.mark.processes


def weights(checkpoint: Path) -> dict[str, list[float]]:
    tensors = load_file(checkpoint / "model/model.safetensors")
    return {name: tensor.flatten().tolist() for name, tensor in tensors.items()}


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_dry_run_leaves_nothing(world: World, ranks: int) -> None:
    folder = world.dry_run(ranks, f"dry{ranks}")
    assert not folder.exists()


def test_a_dry_run_finds_that_checkpoints_cannot_be_written(world: World) -> None:
    folder = world.folder / "dry-full"
    folder.mkdir()
    open_run(folder, load_settings(world.settings))
    (folder / "checkpoints").write_text("where checkpoints would go stands a file")
    with pytest.raises(RuntimeError, match="dry run failed: cannot write the checkpoint"):
        world.dry_run(2, "dry-full")


def test_patience_ends_a_run_and_a_second_start_does_nothing(world: World) -> None:
    patient = ("train.epochs=9", "train.patience=2", "train.learning_rate=1e-9")
    run = world.train(2, "patient", *patient)
    evaluations = (run / "evaluations.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in evaluations]
    assert len(steps) == 3, "a model that learns nothing is not better the second and third time"
    assert [step for step, _ in Checkpoints(run).all()][-1] == steps[-1]
    metrics = (run / "metrics/rank0.jsonl").read_text()
    world.train(2, "patient", *patient)
    assert (run / "metrics/rank0.jsonl").read_text() == metrics
    assert (run / "evaluations.jsonl").read_text().splitlines() == evaluations


@pytest.mark.parametrize("strategy", ["all_reduce", "ddp"])
def test_what_is_frozen_keeps_its_weights(world: World, strategy: str) -> None:
    run = world.train(
        2, f"frozen-{strategy}", "model.freeze=embeddings", "checkpoint.every_steps=1",
        "checkpoint.keep=9", "train.max_steps=4", f"sync.strategy={strategy}",
    )  # fmt: skip
    checkpoints = Checkpoints(run)
    first, last = weights(checkpoints.at(1)), weights(checkpoints.at(4))
    kept = {name for name in first if first[name] == last[name]}
    assert kept == {name for name in first if ".embeddings." in name}
    optimizer = load_file(checkpoints.at(4) / "optimizer.safetensors")
    assert optimizer
    assert not any(".embeddings." in name for name in optimizer)


def test_tensorboard_reads_every_rank_of_a_run(world: World) -> None:
    run = world.train(2, "charted", "train.max_steps=3")
    found = {}
    for folder in (run / "tensorboard").iterdir():
        accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        accumulator.Reload()
        found[folder.name] = accumulator
    assert set(found) == {"rank0", "rank1"}
    for rank, events in found.items():
        lines = (run / f"metrics/{rank}.jsonl").read_text().splitlines()
        losses = [json.loads(line)["loss"] for line in lines]
        assert [e.step for e in events.Scalars("loss/batch")] == [1, 2, 3]
        assert [e.value for e in events.Scalars("loss/batch")] == pytest.approx(losses, rel=1e-6)
    tags = {rank: set(events.Tags()["scalars"]) for rank, events in found.items()}
    assert tags["rank0"] - tags["rank1"] == {
        "dev/exact_match", "dev/f1", "dev/total", "dev/missing", "dev/unknown",
    }  # fmt: skip
    assert tags["rank1"] <= tags["rank0"], "so that all cards lie in one chart"
    (text,) = found["rank0"].Tensors("settings/text_summary")
    assert "max_steps: 3" in text.tensor_proto.string_val[0].decode()
