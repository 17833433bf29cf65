"""Decoding is exact, and merging does not depend on the order in which candidates arrive."""

from __future__ import annotations

import json
import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightwork.tasks.extractive.spans import WIDER, candidate_rows


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
    """The best spans of one window that are apart, found among all that are allowed."""
    spans = [
        (start[i] + end[j], i - context[0], j - context[0])
        for i in range(*context)
        for j in range(i, min(i + longest, context[1]))
    ]
    kept: list[tuple[float, int, int]] = []
    for span in sorted(spans, key=lambda span: -span[0])[: WIDER * n_best]:
        if all(span[2] < other[1] or span[1] > other[2] for other in kept):
            kept.append(span)
    return kept[:n_best]


@given(
    tokens=st.integers(1, 14),
    n_best=st.integers(1, 30),
    longest=st.integers(1, 20),
    seed=st.integers(0, 999),
)
@settings(deadline=None, max_examples=80)
def test_the_n_best_spans_apart_are_exactly_those_of_a_full_search(
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
    assert len(rows) == 1 + 2 + 1, "two tokens, each an answer of its own"


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
    assert sorted(row[2:4] for row in rows) == [[0, 0], [2, 2]]


def test_half_precision_logits_and_plain_numbers() -> None:
    start = torch.randn(2, 6).half()
    rows = candidate_rows(
        start, start, batch_of([(1, 5)] * 2), n_best=3, max_answer_tokens=3, no_answer=True
    )
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
