"""The best threshold for "no answer", by the sweep of the official SQuAD 2.0 script.

Source: ``find_best_thresh`` of ``evaluate-v2.0.py``, https://rajpurkar.github.io/SQuAD-explorer/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class NoAnswer:
    """What a model says about one question of a set that holds questions without an answer."""

    score: float
    """How much more "no answer" is believed than the best answer: any real number, such as a
    difference of logits or a probability."""
    text: str
    """The best answer that is not empty."""


@dataclass(frozen=True)
class Swept:
    """One question in the sweep."""

    no_answer: float
    """The score of "no answer"."""
    answered: float
    """What the question is worth when the text counts: from 0 to 1, or -1 for a text where there
    is no answer (0 for an empty one)."""


def best_threshold(questions: Iterable[Swept], unanswerable: int) -> tuple[float, float]:
    """The largest sum of scores, and the threshold that gives it.

    A question counts as "no answer" when its score is greater than the threshold. The sweep starts
    where all questions do, which is right for ``unanswerable`` of them, and lets the threshold
    rise past one question after the other. Among equal scores the order of ``questions`` matters.
    """
    best = current = float(unanswerable)
    threshold = 0.0
    for question in sorted(questions, key=lambda question: question.no_answer):
        current += question.answered
        if current > best:
            best, threshold = current, question.no_answer
    return best, threshold


def sweep_is_meaningless(no_answer: Mapping[str, NoAnswer]) -> bool:
    """Whether all scores are equal: no threshold then separates any questions.

    The sweep still gives a figure, which depends on the order of the questions.
    """
    return len({item.score for item in no_answer.values()}) < 2
