"""Candidates of windows become the answers of questions."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from lightwork.tasks.extractive.merge import CERTAIN, merge_candidates, no_answer_score
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import Columns, byte_tokenizer, example, examples, word_tokenizer

CONTEXT = "Ada Pell runs the  shop\nin Kell"


@pytest.fixture(scope="module")
def rows() -> Columns:
    """Three examples; the first has windows 0 and 1, of words 0-4 and 3-6 of its context."""
    items = examples(
        example("q1", "Who?", CONTEXT, "Ada Pell"),
        example("blank", "Who?", "  "),
        example("q2", "Who?", "Odd job", "job"),
    )
    tokenizer = word_tokenizer([CONTEXT, "Who? Odd job"])
    windows = build_windows(items, tokenizer, WindowOptions(9, 2, 1), training=False)
    made = Columns(windows)
    assert made.column("example").tolist() == [0, 0, 2]
    return made


def merged(candidates: list[list[Any]], rows: Columns, n_best: int = 5) -> dict[str, Any]:
    return merge_candidates(candidates, rows, n_best)


CANDIDATES = [
    [0, 0, 0, 1, 3.0, 2.0],
    [0, 0, 3, 4, 1.0, 1.5],
    [0, 1, 0, 1, 4.0, 2.5],
    [0, 1, 0, 0, 0.0, 0.25],
]


def test_windows_of_a_question_are_merged_before_choosing(rows: Columns) -> None:
    width = (rows.column("context_last") - rows.column("context_first")).tolist()
    assert width[:2] == [5, 4]
    answers = merged(CANDIDATES, rows)
    assert list(answers) == ["q1", "blank", "q2"]
    # Tokens 3-4 of window 0 are tokens 0-1 of window 1: one span, with its better score.
    assert [answer["text"] for answer in answers["q1"]] == ["the  shop", "Ada Pell"]
    best = answers["q1"][0]
    assert (best["start_logit"], best["end_logit"]) == (4.0, 2.5)
    assert CONTEXT[best["start"] : best["end"]] == "the  shop"
    weights = [math.exp(score) for score in (6.5, 5.0)]
    shares = [answer["probability"] for answer in answers["q1"]]
    assert shares == pytest.approx([weight / sum(weights) for weight in weights])
    for name in ("blank", "q2"):
        assert [answer["text"] for answer in answers[name]] == [""]
        assert answers[name][0]["probability"] == 1.0
    json.dumps(answers, allow_nan=False)


def test_the_order_of_arrival_changes_nothing(rows: Columns) -> None:
    ties = [
        *CANDIDATES,
        [0, 0, 1, 1, 3.0, 2.0],
        [0, 0, 0, 0, 2.0, 3.0],
        [0, 0, 3, 4, 2.5, 4.0],
        [0, 0, -1, -1, 1.0, 0.0],
        [0, 1, -1, -1, 0.0, 1.0],
    ]
    expected = json.dumps(merged(ties, rows))
    spans = [answer["text"] for answer in merged(ties, rows)["q1"]]
    assert spans == ["the  shop", "Ada", "Pell", ""], "no two share a character"
    for order in itertools.islice(itertools.permutations(ties), 0, 362_880, 3_001):
        assert json.dumps(merged(list(order), rows)) == expected


@pytest.mark.parametrize(
    ("null", "text"), [(1.0, "Ada Pell"), (5.9, "Ada Pell"), (6.0, "Ada Pell"), (6.1, "")]
)
def test_no_answer_wins_when_its_lowest_score_is_above_the_best_span(
    rows: Columns, null: float, text: str
) -> None:
    candidates = [
        [0, 0, 0, 1, 3.0, 3.0],
        [0, 0, 0, 0, 1.0, 1.0],
        [0, 0, -1, -1, 9.0, 0.0],
        [0, 1, -1, -1, 0.0, null],
    ]
    answers = merged(candidates, rows, n_best=2)["q1"]
    assert answers[0]["text"] == text
    assert sorted(answer["text"] for answer in answers) == ["", "Ada Pell"]
    null_entry = next(answer for answer in answers if answer["start"] < 0)
    assert (null_entry["start_logit"], null_entry["end_logit"]) == (0.0, null)


def test_at_most_n_best_answers(rows: Columns) -> None:
    assert [a["text"] for a in merged(CANDIDATES, rows, n_best=1)["q1"]] == ["the  shop"]


def test_no_two_answers_share_a_character(rows: Columns) -> None:
    candidates = [
        [0, 0, 0, 1, 1.0, 2.0],
        [0, 0, 1, 2, 2.0, 2.0],
        [0, 0, 0, 0, 0.0, 1.0],
        [0, 0, 2, 2, 0.5, 1.5],
        [0, 0, 3, 4, 0.0, 0.5],
    ]
    texts = [answer["text"] for answer in merged(candidates, rows)["q1"]]
    assert texts == ["Pell runs", "Ada", "the  shop"]


@pytest.mark.parametrize("threshold", [-0.7, 0.0, 0.1, 2.5])
def test_at_the_threshold_itself_the_text_stays_first(rows: Columns, threshold: float) -> None:
    span = [0, 0, 0, 1, 0.1, 0.2]
    null = [0, 0, -1, -1, 0.7, 0.4 + threshold]
    answers = merge_candidates([span, null], rows, 5)["q1"]
    score, text = no_answer_score(answers)
    assert text == "Ada Pell"
    for tuned, first in ((score, "Ada Pell"), (math.nextafter(score, -math.inf), "")):
        answers = merge_candidates([span, null], rows, 5, tuned)["q1"]
        assert answers[0]["text"] == first
        assert no_answer_score(answers) == (score, "Ada Pell"), "whatever comes first"
        assert answers[0]["probability"] == pytest.approx(0.5)


def test_without_texts_or_without_no_answer_the_score_is_certain(rows: Columns) -> None:
    answers = merged([[0, 0, -1, -1, 1.0, 1.0], [2, 2, 0, 0, 1.0, 1.0]], rows)
    assert no_answer_score(answers["q1"]) == (CERTAIN, "")
    assert no_answer_score(answers["blank"]) == (CERTAIN, "")
    assert no_answer_score(answers["q2"]) == (-CERTAIN, "Odd")


def test_tokens_of_blanks_alone_are_no_answer() -> None:
    """A byte-level tokenizer has tokens for blanks; an answer never is, begins or ends with one."""
    tokenizer = byte_tokenizer(["Ada   Pell"])
    items = examples(example("q", "Who?", "Ada   Pell", "Pell"))
    made = Columns(build_windows(items, tokenizer, WindowOptions(40, 2, 8), training=False))
    tokens = len(made.row("offsets", 0)) // 2
    every = [
        [0, 0, first, last, float(first), float(last - first)]
        for first in range(tokens)
        for last in range(first, tokens)
    ]
    for candidate in every:
        (answer,) = merged([candidate], made)["q"]
        assert answer["text"] == answer["text"].strip()
        assert answer["text"] in "Ada   Pell"
        assert (answer["start"] < 0) == (answer["text"] == "")
    texts = {merged([candidate], made)["q"][0]["text"] for candidate in every}
    assert {"", "Pell", "Ada   Pell"} <= texts
