"""Real data sets, whole: every label is the gold answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import Columns, label_text

pytestmark = pytest.mark.shared


@pytest.mark.parametrize(
    ("file", "questions"),
    [
        ("squadshifts/new_wiki_v1.0.json", 7938),
        ("xquad/xquad.en.json", 1190),
        ("xquad/xquad.zh.json", 1190),
        ("squad2-cs224n/dev-v2.0.json", 6078),
    ],
)
def test_real_files_are_read_whole_and_their_labels_are_their_answers(
    shared: Path, packaged: str, file: str, questions: int
) -> None:
    read = read_examples([shared / "data" / file])
    assert len(read) == questions
    assert read.classes == {"ok": read.summary["answers"]}
    options = WindowOptions(384, 128, 64)
    windows = build_windows(read, load_tokenizer(packaged), options, training=True)
    answerable = questions - read.summary["impossible"]
    odd = windows.summary.get("off_border_answers", 0)
    assert odd <= answerable * 0.003
    rows = Columns(windows)
    told = [label_text(windows, index) for index in range(windows.summary["windows"])]
    right = {
        number
        for number, text in zip(rows.column("example").tolist(), told, strict=True)
        if text is not None and text == read.items[number].answers[0].text
    }
    assert len(right) == answerable - odd - windows.summary.get("cut_answers", 0)


CMRC = "cmrc2018-trial/cmrc2018_trial.json"
SHIFTED = [f"TRIAL_210_QUERY_{number}" for number in range(5)]


def test_a_real_file_with_shifted_answers_is_refused(shared: Path) -> None:
    with pytest.raises(DataError, match=r"5 of 1,002 gold answers .*\(shifted_unique 5\)"):
        read_examples([shared / "data" / CMRC])


def test_a_real_file_with_shifted_answers_is_repaired(shared: Path) -> None:
    read = read_examples([shared / "data" / CMRC], on_mismatch="repair")
    assert read.classes == {"ok": 997, "shifted_unique": 5}
    assert read.summary["repaired_answers"] == 5
    assert read.listed["repaired_answers"] == SHIFTED
    assert "misplaced_answers" not in read.summary
    for item in read:
        assert item.learned == item.answers[0]
        start, text = item.learned.start, item.learned.text
        assert start is not None
        assert item.context.startswith(text, start)


def test_a_real_file_with_shifted_answers_is_read_without_them(shared: Path) -> None:
    read = read_examples([shared / "data" / CMRC], on_mismatch="drop")
    assert [item.id for item in read if item.unusable == "misplaced_answers"] == SHIFTED
    assert len(read) == read.summary["answers"] == 1002
    assert read.summary["impossible"] == 0


@pytest.mark.parametrize(
    "file", ["gsm8k-train/train.jsonl", "strategyqa-dev/dev.json", "codah/full_data.tsv"]
)
def test_real_files_of_other_tasks_are_told_in_one_line(shared: Path, file: str) -> None:
    with pytest.raises(DataError) as caught:
        read_examples([shared / "data" / file])
    assert "context" in str(caught.value)
    assert "\n" not in str(caught.value)
