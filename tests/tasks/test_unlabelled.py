"""Questions that are only to be answered may come without gold answers, or with wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import Example
from lightwork.tasks.extractive.reading import read_examples, read_questions
from tests.tasks.made import qa, squad, written

CONTEXT = "Ada Pell runs the shop in Kell."
BARE = {"id": "q1", "question": "Who?"}
ROW = {**BARE, "context": CONTEXT}


@pytest.mark.parametrize(
    "content",
    [
        squad(CONTEXT, BARE),
        squad(CONTEXT, BARE, version="1.1"),
        squad(CONTEXT, qa("q1", []), version="1.1"),
        squad(CONTEXT, qa("q1", [{"text": "Ada Pell", "answer_start": 7}])),
        squad(CONTEXT, qa("q1", [{"text": "nowhere"}])),
        squad(CONTEXT, qa("q1", [], is_impossible=True)),
        squad(CONTEXT, qa("q1", None)),
        squad(CONTEXT, qa("q1", "Ada Pell")),
        {"data": [ROW]},
        [{**ROW, "answers": {"text": [], "answer_start": []}}],
        [{**ROW, "answers": {"text": ["Ada"]}}],
        ROW,
        json.dumps(ROW) + "\n",
    ],
)
def test_gold_answers_are_not_looked_at(tmp_path: Path, content: Any) -> None:
    read = read_questions([written(tmp_path, content)])
    assert read.items == [Example("q1", "Who?", CONTEXT, (), False)]
    assert not read.no_answer


def test_training_and_scoring_still_need_them(tmp_path: Path) -> None:
    path = written(tmp_path, squad(CONTEXT, BARE, version="1.1"))
    with pytest.raises(DataError, match="expected an object with answers"):
        read_examples([path])


def test_everything_else_is_checked_and_counted_as_for_training(tmp_path: Path) -> None:
    document = squad(CONTEXT, BARE, {"id": "q2", "question": " "}, {"id": "q3", "question": " W? "})
    document["data"] += squad(" \n", {"id": "q4", "question": "Who?"})["data"]
    read = read_questions([written(tmp_path, document)])
    assert [item.unusable for item in read] == ["", "blank_questions", "", "blank_contexts"]
    noticed = {"blank_questions", "questions_with_outer_blanks", "blank_contexts"}
    assert noticed <= read.summary.keys()
    for content, part in [
        (squad(CONTEXT, BARE, BARE), r"ids that stand for more than one question: 1 \(q1\)"),
        (squad(CONTEXT, {"id": "q1"}), "expected an object with question"),
        ([BARE], "expected an object with context"),
        ([{**ROW, "id": None}], "null"),
        ({"data": []}, "0 questions"),
    ]:
        with pytest.raises(DataError, match=part):
            read_questions([written(tmp_path, content)])
