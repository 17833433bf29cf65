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


def test_a_real_file_with_shifted_answers_is_refused(shared: Path) -> None:
    with pytest.raises(DataError, match=r"5 of 1,002 gold answers .*\(shifted_unique 5\)"):
        read_examples([shared / "data" / "cmrc2018-trial" / "cmrc2018_trial.json"])
