"""Candidates of all windows -> the n best answers of each example, whatever the order they come in.

Windows of one question are merged before an answer is chosen. A text is always a slice of the
original context, so nothing that the tokenizer folds or drops is missing from it. No two answers
of a question share a character: of those that do, the best one is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightwork.tasks.contract import Candidate, Rows

Answer = dict[str, Any]
"""``text``, ``start``, ``end`` (characters, -1 without answer), both logits, ``probability``."""

CERTAIN = 1e9
"""Beyond every difference of logits, and a number that JSON has."""

Logits = tuple[float, float]
Span = tuple[int, int]


class _Found:
    """What was proposed for one example."""

    def __init__(self) -> None:
        self.spans: dict[Span, Logits] = {}
        self.null: Logits | None = None

    def add_span(self, span: Span, logits: Logits) -> None:
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
    candidates: Iterable[Candidate], rows: Rows, n_best: int, no_answer_threshold: float = 0.0
) -> dict[str, list[Answer]]:
    """Per example id, in input order, at least one and at most ``n_best`` answers, best first.

    Equal scores are ordered by place, an answer before no answer. An example nothing was proposed
    for gets the text "". The candidates are the rows of ``spans.candidate_rows``.
    ``no_answer_threshold``: by how much the score of "no answer", the lowest of all windows, must
    exceed that of the best answer for it to come first; it also counts in the probabilities.
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
        if span[0] < span[1]:  # otherwise its tokens show nothing but blanks
            entry.add_span(span, (start_logit, end_logit))
    merged = {}
    context_before, context = -1, ""
    for example, number in enumerate(rows.column("example_context").tolist()):
        if number != context_before:
            context_before, context = number, rows.text("context", number)
        entry = found.get(example) or _Found()
        answers = _answers(entry, context, n_best, no_answer_threshold)
        merged[rows.text("example_id", example)] = answers
    return merged


def _answers(found: _Found, context: str, n_best: int, threshold: float) -> list[Answer]:
    kept = _apart(found.spans, n_best if found.null is None else max(n_best - 1, 1))
    answers = [_answer(context[span[0] : span[1]], span, logits) for span, logits in kept]
    strengths = [sum(logits) for _, logits in kept]
    if found.null is not None or not answers:
        null = found.null or (0.0, 0.0)
        # Compared as the threshold was tuned: at its very value, rounding could decide otherwise.
        first = not strengths or sum(null) - strengths[0] > threshold
        strength = sum(null) - threshold
        place = sum(strength <= other for other in strengths)
        place = 0 if first else max(place, 1)
        answers.insert(place, _answer("", (-1, -1), null))
        strengths.insert(place, strength)
    answers, strengths = answers[:n_best], strengths[:n_best]
    top = max(strengths)
    weights = [math.exp(strength - top) for strength in strengths]
    for answer, weight in zip(answers, weights, strict=True):
        answer["probability"] = weight / math.fsum(weights)
    return answers


def _apart(spans: dict[Span, Logits], count: int) -> list[tuple[Span, Logits]]:
    """The best ``count`` spans of which no two share a character, best first."""
    kept: list[tuple[Span, Logits]] = []
    for span, logits in sorted(spans.items(), key=lambda item: (-sum(item[1]), item[0])):
        if all(span[1] <= other[0] or other[1] <= span[0] for other, _ in kept):
            kept.append((span, logits))
            if len(kept) == count:
                break
    return kept


def no_answer_score(answers: list[Answer]) -> tuple[float, str]:
    """How much more "no answer" is believed than the best text, in logits, and that text.

    ``answers`` are those of one question, as merging gives them; without any text the score is
    ``CERTAIN``, and without "no answer" among them ``-CERTAIN``.
    """
    text = next((answer for answer in answers if answer["start"] >= 0), None)
    null = next((answer for answer in answers if answer["start"] < 0), None)
    if text is None:
        return CERTAIN, ""
    if null is None:
        return -CERTAIN, text["text"]
    return _strength(null) - _strength(text), text["text"]


def _strength(answer: Answer) -> float:
    return float(answer["start_logit"] + answer["end_logit"])


def _answer(text: str, span: Span, logits: Logits) -> Answer:
    return {
        "text": text,
        "probability": 0.0,
        "start_logit": logits[0],
        "end_logit": logits[1],
        "start": span[0],
        "end": span[1],
    }
