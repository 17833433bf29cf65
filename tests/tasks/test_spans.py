"""Decoding is exact, and merging does not depend on the order in which candidates arrive."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightwork.tasks.extractive.merge import merge_candidates
from lightwork.tasks.extractive.spans import candidate_rows
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import Columns, example, examples, word_tokenizer


def batch_of(contexts: list[tuple[int, int]], cls: int = 0) -> dict[str, Tensor]:
    """Windows whose context is from the first to before the second place."""
    count = len(contexts)
    return {
        "example": torch.arange(count) + 100,
        "window": torch.arange(count) + 200,
        "context_first": torch.tensor([first for first, _ in contexts]),
        "context_last": torch.tensor([last for _, last in contexts]),
        "cls": torch.full((count,), cls),
    }


def by_hand(
    start: list[float], end: list[float], context: tuple[int, int], n_best: int, longest: int
) -> list[tuple[float, int, int]]:
    """Every allowed span of one window, the best ones first."""
    spans = [
        (start[i] + end[j], i - context[0], j - context[0])
        for i in range(*context)
        for j in range(i, min(i + longest, context[1]))
    ]
    return sorted(spans, key=lambda span: -span[0])[:n_best]


@given(
    tokens=st.integers(1, 14),
    n_best=st.integers(1, 30),
    longest=st.integers(1, 20),
    seed=st.integers(0, 999),
)
@settings(deadline=None, max_examples=80)
def test_the_n_best_spans_are_exactly_those_of_a_full_search(
    tokens: int, n_best: int, longest: int, seed: int
) -> None:
    draw = random.Random(seed)
    contexts = []
    for _ in range(3):
        first = draw.randint(0, tokens)
        contexts.append((first, draw.randint(first, tokens)))
    # Whole numbers below 2^24 keep float32 sums exact; drawn without repeats, so no ties.
    logits = [[[float(draw.randrange(2**20)) for _ in range(tokens)] for _ in "abc"] for _ in "se"]
    rows = candidate_rows(
        torch.tensor(logits[0]),
        torch.tensor(logits[1]),
        batch_of(contexts),
        n_best=n_best,
        max_answer_tokens=longest,
        no_answer=False,
    )
    for number, context in enumerate(contexts):
        expected = by_hand(logits[0][number], logits[1][number], context, n_best, longest)
        own = [row for row in rows if row[0] == 100 + number]
        assert all(row[1] == 200 + number for row in own)
        assert [row[4] + row[5] for row in own] == [span[0] for span in expected]
        for _, _, first, last, start_logit, end_logit in own:
            assert start_logit == logits[0][number][first + context[0]]
            assert end_logit == logits[1][number][last + context[0]]
            assert 0 <= first <= last < min(first + longest, context[1] - context[0])


def test_null_rows_and_windows_without_context() -> None:
    start = torch.arange(12.0).view(2, 6)
    rows = candidate_rows(
        start,
        -start,
        batch_of([(3, 3), (2, 4)], cls=5),
        n_best=9,
        max_answer_tokens=3,
        no_answer=True,
    )
    assert [row for row in rows if row[0] == 100] == [[100, 200, -1, -1, 5.0, -5.0]]
    assert [101, 201, -1, -1, 11.0, -11.0] in rows
    assert len(rows) == 1 + 3 + 1


def test_logits_of_a_diverged_model_give_no_candidates_instead_of_failing() -> None:
    start = torch.full((1, 6), float("nan"))
    rows = candidate_rows(
        start, start, batch_of([(1, 5)]), n_best=5, max_answer_tokens=3, no_answer=True
    )
    assert rows == []
    start = torch.tensor([[0.0, 1.0, float("inf"), 2.0]])
    rows = candidate_rows(
        start, start, batch_of([(1, 4)]), n_best=5, max_answer_tokens=3, no_answer=False
    )
    assert sorted(row[2:4] for row in rows) == [[0, 0], [0, 2], [2, 2]]


def test_half_precision_logits_and_plain_numbers() -> None:
    start = torch.randn(2, 6).half()
    rows = candidate_rows(
        start, start, batch_of([(1, 5)] * 2), n_best=3, max_answer_tokens=3, no_answer=True
    )
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


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
    assert [answer["text"] for answer in answers["q1"]] == ["the  shop", "Ada Pell", "the"]
    best = answers["q1"][0]
    assert (best["start_logit"], best["end_logit"]) == (4.0, 2.5)
    assert CONTEXT[best["start"] : best["end"]] == "the  shop"
    weights = [math.exp(score) for score in (6.5, 5.0, 0.25)]
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
    assert spans[1:4] == ["Ada", "Ada Pell", "Pell"]
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
