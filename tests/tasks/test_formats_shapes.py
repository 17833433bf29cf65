"""Shapes of JSON that people really have, and those of other tasks, which are told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import Answer
from lightwork.tasks.extractive.reading import read_examples, read_questions
from tests.tasks.made import qa, squad, written

CONTEXT = "Ada Pell runs the shop in Kell."
ROW = {
    "id": "q1",
    "question": "Who?",
    "context": CONTEXT,
    "answers": {"text": ["Ada Pell"], "answer_start": [0]},
}
GOLD = [{"text": "Ada Pell", "answer_start": 0}]
RAW = {
    "context_id": "T1",
    "context_text": "王某于1957年建成望江塔，塔高三十米，王某八十岁。",
    "title": "塔",
    "qas": [
        {
            "query_id": "T1_Q1",
            "query_text": "何时建成？",
            "answers": ["1957年", "1957年", "于1957年"],
        },
        {"query_id": "T1_Q2", "query_text": "塔有多高？", "answers": ["30米"]},
        {"query_id": "T1_Q3", "query_text": "谁？", "answers": ["王某"]},
        {"query_id": "T1_Q4", "query_text": "多少？", "answers": ["王某", "八十岁"]},
    ],
}


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        (squad(CONTEXT, qa("q1", GOLD)), "SQuAD 2.0 (articles, paragraphs, qas)"),
        (squad(CONTEXT, qa("q1", GOLD), version="v1.1"), "SQuAD 1.1 (articles, paragraphs, qas)"),
        (squad(CONTEXT, qa("q1", GOLD))["data"], "SQuAD-like (articles, paragraphs, qas)"),
        ({"data": [ROW]}, "rows as JSON"),
        ([ROW], "rows as JSON"),
        (ROW, "rows as JSON lines"),
        (json.dumps(ROW) + "\n" + json.dumps({**ROW, "id": 2}), "rows as JSON lines"),
        ([RAW], "raw CMRC 2018"),
        (json.dumps(RAW) + "\n", "raw CMRC 2018"),
    ],
)
def test_every_file_is_told_what_it_is(tmp_path: Path, content: Any, shape: str) -> None:
    assert read_examples([written(tmp_path, content)]).shapes == (shape,)


def test_a_file_that_was_not_needed_has_no_shape(tmp_path: Path) -> None:
    paths = [written(tmp_path, [ROW], "a.json"), written(tmp_path, [ROW], "b.json")]
    assert read_examples(paths, limit=1).shapes == ("rows as JSON", "")


@pytest.mark.parametrize("content", [[RAW], {"data": [RAW]}, json.dumps(RAW)])
def test_raw_cmrc_answers_are_placed_where_there_is_one_place(tmp_path: Path, content: Any) -> None:
    read = read_examples([written(tmp_path, content)])
    assert [item.answers for item in read] == [
        (Answer("1957年", 3), Answer("1957年", 3), Answer("于1957年", 2)),
        (Answer("30米", None),),
        (Answer("王某", None),),
        (Answer("王某", None), Answer("八十岁", 22)),
    ]
    assert [item.unusable for item in read] == ["", "unlocated_answers", "ambiguous_answers", ""]
    assert [item.learned is not None for item in read] == [True, False, False, True]
    assert read.summary == {
        "examples": 4,
        "contexts": 1,
        "answers": 7,
        "impossible": 0,
        "ambiguous_answers": 2,
        "unlocated_answers": 1,
        "unplaced_questions": 2,
    }
    assert read.classes == {"located": 4, "ambiguous": 2, "unlocated": 1}
    assert read.listed["unlocated_answers"] == ["T1_Q2"]
    assert read.misplaced == ("T1_Q2 (unlocated): the context does not hold '30米'",)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"answers": "1957年"}, "[0].qas[0].answers (id T1_Q1): expected a list of texts"),
        ({"answers": [{"text": "1957年"}]}, "[0].qas[0].answers[0] (id T1_Q1): expected a text"),
        ({"query_id": None}, "[0].qas[0].query_id: expected a text, found null"),
        ({"query_text": 3}, "[0].qas[0].query_text (id T1_Q1): expected a text"),
    ],
)
def test_a_raw_cmrc_file_of_another_shape(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    article = {**RAW, "qas": [{**RAW["qas"][0], **change}]}  # type: ignore[dict-item]
    with pytest.raises(DataError) as caught:
        read_examples([written(tmp_path, [article])])
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "document",
    [
        {  # DRCD 2018
            "version": "1.3",
            "data": [
                {
                    "title": "店",
                    "id": "1001",
                    "paragraphs": [
                        {
                            "context": CONTEXT,
                            "id": "1001-10",
                            "qas": [
                                {
                                    "id": "1001-10-1",
                                    "question": "Who?",
                                    "answers": [{"id": "1", "text": "Ada Pell", "answer_start": 0}],
                                }
                            ],
                        }
                    ],
                }
            ],
        },
        {  # KorQuAD 1.0
            "version": "KorQuAD_v1.0_train",
            "data": [
                {
                    "title": "상점",
                    "paragraphs": [
                        {
                            "qas": [{"answers": GOLD, "id": "6566495-0-0", "question": "Who?"}],
                            "context": CONTEXT,
                        }
                    ],
                }
            ],
        },
    ],
)
def test_data_sets_that_are_like_squad(tmp_path: Path, document: Any) -> None:
    read = read_examples([written(tmp_path, document)])
    assert [item.answers for item in read] == [(Answer("Ada Pell", 0),)]
    assert read.classes == {"ok": 1}


def test_texts_without_any_starts_are_answers_without_a_start(tmp_path: Path) -> None:
    path = written(tmp_path, [{**ROW, "answers": {"text": ["Ada Pell"]}}])
    assert read_examples([path], on_mismatch="repair").items[0].answers == (Answer("Ada Pell", 0),)
    with pytest.raises(DataError, match=r"\(no_start 1\)"):
        read_examples([path])


QUESTION = {"id": "m1", "question": "Colour?"}
OPTIONS = ["red", "black", "green", "white"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([{**QUESTION, "context": "Tar is black.", "options": OPTIONS, "answer": "B"}], "choice"),
        ([{**QUESTION, "context": "Tar is black.", "options": {"B": "red"}}], "multiple-choice"),
        ([{"article": "Tar.", "questions": ["?"], "options": [OPTIONS], "answers": ["B"]}], "choi"),
        ({"id": 1, "question": {"stem": "?", "choices": OPTIONS}, "answerKey": "B"}, "choice"),
        ({"id": 1, "context": "Tar.", "question": {"stem": "?", "choices": OPTIONS}}, "choice"),
        ('{"question": "1 + 1?", "answer": "2"}\n{"question": "?", "answer": "3"}', "freely"),
        ([{"qid": "s", "term": "Albany", "question": "Is it?", "answer": False}], "freely"),
        ([{"instruction": "Say it.", "input": "", "output": "it"}], "freely"),
        ({"questions": [], "choices": []}, "multiple-choice"),
    ],
)
@pytest.mark.parametrize("read", [read_examples, read_questions])
def test_questions_of_other_tasks_are_refused(
    tmp_path: Path, content: Any, told: str, read: Any
) -> None:
    with pytest.raises(DataError) as caught:
        read([written(tmp_path, content)])
    message = str(caught.value)
    assert told in message
    assert "needs a question, a context and gold answers that stand in it" in message
    assert "\n" not in message


def test_options_beside_answers_in_a_context_do_no_harm(tmp_path: Path) -> None:
    assert (
        len(read_examples([written(tmp_path, [{**ROW, "options": OPTIONS, "answer": "B"}])])) == 1
    )
