"""Candidates of all windows -> the n best answers of each example, whatever the order they come in.

Windows of one question are merged before an answer is chosen. A text is always a slice of the
original context, so nothing that the tokenizer folds or drops is missing from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightwork.tasks.contract import Candidate, Rows

Answer = dict[str, Any]
"""``text``, ``start``, ``end`` (characters, -1 without answer), both logits, ``probability``."""

Logits = tuple[float, float]


class _Found:
    """What was proposed for one example."""

    def __init__(self) -> None:
        self.spans: dict[tuple[int, int], Logits] = {}
        self.null: Logits | None = None

    def add_span(self, span: tuple[int, int], logits: Logits) -> None:
        """Keep the better of two windows that see the same characters."""
        if span not in self.spans or _rank(logits) > _rank(self.spans[span]):
            self.spans[span] = logits

    def add_null(self, logits: Logits) -> None:
        """No answer is as likely as in the window that believes in it least."""
        if self.null is None or _rank(logits) < _rank(self.null):
            self.null = logits


def _rank(logits: Logits) -> tuple[float, float]:
    return (logits[0] + logits[1], logits[0])


def merge_candidates(
    candidates: Iterable[Candidate], rows: Rows, n_best: int
) -> dict[str, list[Answer]]:
    """Per example id, in input order, at least one and at most ``n_best`` answers, best first.

    Equal scores are ordered by place, an answer before no answer. An example nothing was proposed
    for gets the text "". The candidates are the rows of ``spans.candidate_rows``.
    """
    found: dict[int, _Found] = {}
    window_before, offsets = -1, None
    for example, window, first, last, start_logit, end_logit in candidates:
        entry = found.setdefault(example, _Found())
        if first < 0:
            entry.add_null((start_logit, end_logit))
            continue
        if window != window_before or offsets is None:
            window_before, offsets = window, rows.row("offsets", window)
        span = int(offsets[2 * first]), int(offsets[2 * last + 1])
        entry.add_span(span, (start_logit, end_logit))
    merged = {}
    context_before, context = -1, ""
    for example, number in enumerate(rows.column("example_context").tolist()):
        if number != context_before:
            context_before, context = number, rows.text("context", number)
        answers = _answers(found.get(example) or _Found(), context, n_best)
        merged[rows.text("example_id", example)] = answers
    return merged


def _answers(found: _Found, context: str, n_best: int) -> list[Answer]:
    best = sorted(found.spans.items(), key=lambda item: (-sum(item[1]), item[0]))
    kept = best[: n_best if found.null is None else max(n_best - 1, 1)]
    answers = [_answer(context[span[0] : span[1]], span, logits) for span, logits in kept]
    if found.null is not None or not answers:
        answers.append(_answer("", (-1, -1), found.null or (0.0, 0.0)))
    # Python's sort is stable: on equal scores "no answer", which came last, stays behind.
    answers.sort(key=lambda answer: -(answer["start_logit"] + answer["end_logit"]))
    answers = answers[:n_best]
    top = answers[0]["start_logit"] + answers[0]["end_logit"]
    weights = [math.exp(item["start_logit"] + item["end_logit"] - top) for item in answers]
    for answer, weight in zip(answers, weights, strict=True):
        answer["probability"] = weight / math.fsum(weights)
    return answers


def _answer(text: str, span: tuple[int, int], logits: Logits) -> Answer:
    return {
        "text": text,
        "probability": 0.0,
        "start_logit": logits[0],
        "end_logit": logits[1],
        "start": span[0],
        "end": span[1],
    }
