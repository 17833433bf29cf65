"""What is said while data is made ready."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightwork.assembly.preparing import prepare
from lightwork.settings import load_settings
from tests.runs.conftest import SETTINGS, questions


def test_a_training_file_among_the_held_out_ones_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, first in (("train", 0), ("again", 0), ("dev", 100)):
        (tmp_path / f"{name}.json").write_text(json.dumps(questions(9, first)))
    (tmp_path / "s.yaml").write_text(SETTINGS.format(folder=tmp_path))
    prepare(load_settings(tmp_path / "s.yaml"))
    assert "is a training file too" not in caplog.text
    prepare(load_settings(tmp_path / "s.yaml", [f"data.dev={tmp_path / 'again.json'}"]))
    assert f"data.dev: {tmp_path / 'again.json'} is a training file too" in caplog.text


def test_misplaced_answers_are_learned_repaired_or_left_out_as_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document = questions(9)
    answer = document["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]
    answer["answer_start"] += 1
    for name in ("train", "dev"):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "s.yaml").write_text(SETTINGS.format(folder=tmp_path))
    counts = {}
    for mode in ("repair", "drop"):
        made = prepare(load_settings(tmp_path / "s.yaml", [f"data.on_mismatch={mode}"]))
        counts[mode] = made.train.facts["summary"]
        assert made.dev is not None
        assert made.dev.facts["summary"]["answers"] == 9, "all count in scoring"
    assert counts["repair"]["repaired_answers"] == 1
    assert counts["drop"]["misplaced_answers"] == 1
    assert counts["repair"]["windows"] == counts["drop"]["windows"] + 1
