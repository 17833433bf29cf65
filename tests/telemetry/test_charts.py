"""TensorBoard reads back what the ranks wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightwork.telemetry.charts import TAGS, Charts
from tests.telemetry.test_recorder import record


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def test_every_rank_has_the_same_tags_in_its_own_folder(tmp_path: Path) -> None:
    for rank in (0, 1):
        charts = Charts(tmp_path, rank, first_step=1)
        for step in (1, 2, 3):
            speed = 0.5 + rank
            charts.write(replace(record(step), rank=rank, rank_loss=1.0, step_s=speed))
        charts.close()
    first, second = (read(tmp_path / f"rank{rank}") for rank in (0, 1))
    assert set(first.Tags()["scalars"]) == set(second.Tags()["scalars"])
    assert set(first.Tags()["scalars"]) == set(TAGS) - {"gradient/rank_norm"}, "not measured"
    assert [e.step for e in first.Scalars("loss/batch")] == [1, 2, 3], "every single step"
    assert [e.value for e in second.Scalars("seconds/step")] == [1.5, 1.5, 1.5]
    assert [e.value for e in first.Scalars("speed/batch_windows_per_s")] == [32, 32, 32]


def test_a_resume_replaces_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    charts = Charts(tmp_path, 0, first_step=1)
    for step in (1, 2, 3, 4):
        charts.write(record(step, loss=10.0 + step))
    charts.close()
    again = Charts(tmp_path, 0, first_step=3)
    for step in (3, 4):
        again.write(record(step, loss=20.0 + step))
    again.close()
    losses = read(tmp_path / "rank0").Scalars("loss/batch")
    assert [(e.step, e.value) for e in losses] == [(1, 11), (2, 12), (3, 23), (4, 24)]


def test_text_is_shown_line_by_line(tmp_path: Path) -> None:
    charts = Charts(tmp_path, 0, first_step=1)
    charts.text("settings", "train:\n  seed: 1")
    charts.scalars({"dev/f1": 50.0}, step=7)
    charts.close()
    events = read(tmp_path / "rank0")
    (text,) = events.Tensors("settings/text_summary")
    assert text.tensor_proto.string_val[0].decode() == "    train:\n      seed: 1"
    assert [(e.step, e.value) for e in events.Scalars("dev/f1")] == [(7, 50)]
