"""Exact match and F1 of predictions, by the official definition of the language they are in.

The total is the number of questions: a question without a prediction counts as wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lightwork.tasks.extractive.languages import AUTO
from lightwork.tasks.extractive.scoring.definitions import (
    Definitions,
    Gold,
    definition,
    rule_of,
)
from lightwork.tasks.extractive.scoring.rules import agreement
from lightwork.tasks.extractive.scoring.sweep import (
    NoAnswer,
    Swept,
    best_threshold,
    sweep_is_meaningless,
)

__all__ = [
    "Definitions",
    "Gold",
    "NoAnswer",
    "definition",
    "score_answers",
    "sweep_is_meaningless",
]

Agreements = dict[str, tuple[float, float]]
"""Id of a question -> its exact match and F1, from 0 to 1; in the order of the questions."""


def score_answers(
    predictions: Mapping[str, str],
    golds: Mapping[str, Gold],
    *,
    language: str = AUTO,
    no_answer: Mapping[str, NoAnswer] | None = None,
) -> dict[str, float | int]:
    """``exact_match`` and ``f1`` in percent over all questions, and counts.

    ``total`` is the number of questions, ``missing`` of those without a prediction, ``unknown`` of
    predictions without a question. Where some question has no answer there are also ``exact``,
    ``f1`` and ``total`` of those with one (``HasAns_``) and without (``NoAns_``), and, when
    predictions are missing, ``official_exact``, ``official_f1`` and ``official_total``, which
    leave them out as the official script of SQuAD 2.0 does. ``no_answer`` adds ``best_exact``,
    ``best_exact_thresh``, ``best_f1`` and ``best_f1_thresh``.
    """
    definitions = definition(golds, language)
    scored = _agreements(predictions, golds, definitions)
    exact, f1 = _percent(scored, len(golds))
    scores: dict[str, float | int] = {
        "exact_match": exact,
        "f1": f1,
        "total": len(golds),
        "missing": len(golds) - len(scored),
        "unknown": len(predictions.keys() - golds.keys()),
    }
    if definitions.unanswerable:
        scores |= _in_parts(scored, golds)
    if no_answer is not None:
        scores |= _swept(no_answer, golds, definitions)
    return scores


def _agreements(
    predictions: Mapping[str, str], golds: Mapping[str, Gold], definitions: Definitions
) -> Agreements:
    """Those questions that have a prediction."""
    return {
        question: agreement(
            predictions[question],
            gold.answers,
            rule_of(definitions.languages[question]),
            unanswerable=definitions.unanswerable,
        )
        for question, gold in golds.items()
        if question in predictions
    }


def _percent(scored: Agreements, questions: int) -> tuple[float, float]:
    """Exact match and F1 over ``questions``, those that are not in ``scored`` being wrong."""
    return (
        _mean(100.0 * sum(exact for exact, _ in scored.values()), questions),
        _mean(100.0 * sum(f1 for _, f1 in scored.values()), questions),
    )


def _mean(total: float, questions: int) -> float:
    return total / questions if questions else 0.0


def _in_parts(scored: Agreements, golds: Mapping[str, Gold]) -> dict[str, float | int]:
    """Questions with and without an answer apart, and what the official script would say."""
    scores: dict[str, float | int] = {}
    for part, answerable in (("HasAns", True), ("NoAns", False)):
        chosen = [name for name, gold in golds.items() if bool(gold.answers) is answerable]
        found = {name: scored[name] for name in chosen if name in scored}
        exact, f1 = _percent(found, len(chosen))
        scores |= {f"{part}_exact": exact, f"{part}_f1": f1, f"{part}_total": len(chosen)}
    if len(scored) < len(golds):
        exact, f1 = _percent(scored, len(scored))
        scores |= {"official_exact": exact, "official_f1": f1, "official_total": len(scored)}
    return scores


def _swept(
    no_answer: Mapping[str, NoAnswer], golds: Mapping[str, Gold], definitions: Definitions
) -> dict[str, float]:
    """The best of all thresholds for each of the two scores."""
    known = {name: item for name, item in no_answer.items() if name in golds}
    texts = {name: item.text for name, item in known.items()}
    scored = _agreements(texts, {name: golds[name] for name in known}, definitions)
    unanswerable = sum(not golds[name].answers for name in known)
    found: dict[str, float] = {}
    for column, key in enumerate(("best_exact", "best_f1")):
        questions: Iterable[Swept] = (
            Swept(item.score, _worth(golds[name], item.text, scored[name][column]))
            for name, item in known.items()
        )
        best, threshold = best_threshold(questions, unanswerable)
        found |= {key: _mean(100.0 * best, len(golds)), f"{key}_thresh": threshold}
    return found


def _worth(gold: Gold, text: str, score: float) -> float:
    """What the sum gains when a text counts instead of "no answer"."""
    if gold.answers:
        return score
    return -1.0 if text else 0.0
