"""TensorBoard reads back what the ranks wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightwork.telemetry.records import Sample
from lightwork.telemetry.sinks import TAGS, Place, Sinks
from tests.telemetry.test_recorder import record

SAMPLE = Sample(90.0, 95.5, 3.0, 88.0, 71.0, 1410.0, 250.5, ["thermal", "power cap"])


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def charts(folder: Path, rank: int = 0, first_step: int = 1) -> Sinks:
    return Sinks(["tensorboard"], Place(folder, "some-run", rank, first_step))


def test_every_rank_has_the_same_tags_in_its_own_folder(tmp_path: Path) -> None:
    """Lightning-AI/pytorch-lightning#241, #230, deepspeedai/DeepSpeed#296, horovod/horovod#99."""
    for rank in (0, 1):
        with charts(tmp_path, rank) as sinks:
            for step in (1, 2, 3):
                speed = 0.5 + rank
                whole = replace(record(step), rank=rank, rank_loss=1.0, step_s=speed)
                sinks.write(replace(whole, sample=SAMPLE))
    first, second = (read(tmp_path / f"tensorboard/rank{rank}") for rank in (0, 1))
    assert set(first.Tags()["scalars"]) == set(second.Tags()["scalars"])
    assert set(first.Tags()["scalars"]) == set(TAGS) - {"gradient/rank_norm"}, "not measured"
    assert [e.step for e in first.Scalars("loss/batch")] == [1, 2, 3], "every single step"
    assert [e.value for e in second.Scalars("seconds/step")] == [1.5, 1.5, 1.5]
    assert [e.value for e in first.Scalars("speed/batch_windows_per_s")] == [32, 32, 32]
    assert [e.value for e in first.Scalars("card/throttled")] == [2, 2, 2], "so many reasons"


def test_a_resume_replaces_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with charts(tmp_path) as sinks:
        for step in (1, 2, 3, 4):
            sinks.write(record(step, loss=10.0 + step))
    with charts(tmp_path, first_step=3) as again:
        for step in (3, 4):
            again.write(record(step, loss=20.0 + step))
    losses = read(tmp_path / "tensorboard/rank0").Scalars("loss/batch")
    assert [(e.step, e.value) for e in losses] == [(1, 11), (2, 12), (3, 23), (4, 24)]


def test_text_is_shown_line_by_line(tmp_path: Path) -> None:
    with charts(tmp_path) as sinks:
        sinks.text("settings", "train:\n  seed: 1")
        sinks.scalars({"dev/f1": 50.0}, step=7, time_unix_s=3.0)
    events = read(tmp_path / "tensorboard/rank0")
    (text,) = events.Tensors("settings/text_summary")
    assert text.tensor_proto.string_val[0].decode() == "    train:\n      seed: 1"
    (score,) = events.Scalars("dev/f1")
    assert (score.step, score.value, score.wall_time) == (7, 50, 3.0)
