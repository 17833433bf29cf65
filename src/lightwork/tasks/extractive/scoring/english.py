"""Exact match and F1 by the official SQuAD 1.1 definition (Rajpurkar et al., 2016).

Both texts are lower-cased, lose ASCII punctuation and the words a, an, the, and have their white
space squeezed. Exact match compares what is left, F1 counts the words they share. The best gold
answer counts. A question without gold answers is right when nothing is left of the prediction,
as in SQuAD 2.0. The total is the number of questions, so a missing prediction counts as wrong.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """What is compared of an answer."""
    plain = text.lower().translate(WITHOUT_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", plain).split())


def exact_match(prediction: str, gold: str) -> float:
    """1.0 when both texts are the same after normalising, else 0.0."""
    return float(normalized(prediction) == normalized(gold))


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of precision and recall over the multisets of words."""
    predicted, expected = normalized(prediction).split(), normalized(gold).split()
    shared = (Counter(predicted) & Counter(expected)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(expected)
    return 2 * precision * recall / (precision + recall)


def squad_scores(
    predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]
) -> dict[str, float | int]:
    """``exact_match`` and ``f1`` in percent over all ids of ``golds``, and three counts.

    ``total`` is the number of questions, ``missing`` of those without a prediction, ``unknown``
    of predictions without a question.
    """
    exact_sum = f1_sum = 0.0
    missing = 0
    for example_id, answers in golds.items():
        if example_id not in predictions:
            missing += 1
            continue
        prediction = predictions[example_id]
        if not answers:
            right = float(not normalized(prediction))
            exact_sum, f1_sum = exact_sum + right, f1_sum + right
            continue
        exact_sum += max(exact_match(prediction, gold) for gold in answers)
        f1_sum += max(f1(prediction, gold) for gold in answers)
    total = len(golds)
    return {
        "exact_match": 100.0 * exact_sum / total if total else 0.0,
        "f1": 100.0 * f1_sum / total if total else 0.0,
        "total": total,
        "missing": missing,
        "unknown": len(predictions.keys() - golds.keys()),
    }
