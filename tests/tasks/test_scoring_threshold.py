"""The best threshold for "no answer", by the official sweep of SQuAD 2.0."""

from __future__ import annotations

import itertools
import random

import pytest

from lightwork.tasks.extractive.scoring.score import (
    Gold,
    NoAnswer,
    score_answers,
    sweep_is_meaningless,
)

GOLDS = {
    "h1": Gold(("Nell",)), "h2": Gold(("figs from Lund",)), "h3": Gold(("Omar",)),
    "n1": Gold(()), "n2": Gold(()),
}  # fmt: skip
TEXTS = {"h1": "Nell", "h2": "figs", "h3": "Lund", "n1": "Nell", "n2": ""}


def swept(scores: dict[str, float], golds: dict[str, Gold] = GOLDS) -> tuple[float, ...]:
    """Best exact match, its threshold, best F1, its threshold."""
    no_answer = {name: NoAnswer(score, TEXTS[name]) for name, score in scores.items()}
    found = score_answers(TEXTS, golds, language="en", no_answer=no_answer)
    keys = ("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh")
    return tuple(found[key] for key in keys)


def test_the_best_thresholds() -> None:
    scores = {"h1": -3.0, "h2": 0.5, "h3": 4.0, "n1": 2.0, "n2": 3.0}
    # All unanswered: 2 of 5 are right. Past -3: h1 is gained; past 0.5: half of h2.
    assert swept(scores) == pytest.approx((60, -3.0, 70, 0.5))


def test_an_empty_text_is_right_on_both_sides_of_the_threshold() -> None:
    scores = {"n2": -5.0, "h1": -3.0, "h2": 0.5, "h3": 4.0, "n1": 2.0}
    assert swept(scores) == pytest.approx((60, -3.0, 70, 0.5))


def test_answering_nothing_may_be_best() -> None:
    scores = {"h1": 5.0, "h2": 6.0, "h3": 7.0, "n1": 1.0, "n2": 2.0}
    golds = {**GOLDS, "h1": Gold(("Omar",)), "h2": Gold(("Omar",))}
    assert swept(scores, golds) == pytest.approx((40, 0.0, 40, 0.0))


def test_equal_scores_mean_nothing() -> None:
    scores = dict.fromkeys(GOLDS, 0.0)
    # As the official script: a figure that depends on the order, at a threshold that is not one.
    assert swept(scores) == pytest.approx((60, 0.0, 70, 0.0))
    assert swept(dict(reversed(scores.items()))) != swept(scores)
    assert sweep_is_meaningless({name: NoAnswer(0.0, "x") for name in GOLDS})
    assert not sweep_is_meaningless({"a": NoAnswer(0.0, "x"), "b": NoAnswer(0.1, "x")})


def test_the_swept_text_counts_and_not_the_prediction() -> None:
    no_answer = {name: NoAnswer(0.1 * at, TEXTS[name]) for at, name in enumerate(GOLDS)}
    of_texts = score_answers(TEXTS, GOLDS, language="en", no_answer=no_answer)
    of_nothing = score_answers(dict.fromkeys(GOLDS, ""), GOLDS, language="en", no_answer=no_answer)
    assert of_texts["best_f1"] == of_nothing["best_f1"]
    assert of_nothing["f1"] == 40.0


def test_missing_questions_count_as_wrong_in_the_sweep_too() -> None:
    scores = {"h1": -3.0, "h2": 0.5}
    assert swept(scores) == pytest.approx((20, -3.0, 30, 0.5))


def by_trying(scores: dict[str, float], texts: dict[str, str], golds: dict[str, Gold]) -> float:
    """The best F1 over all thresholds, each tried by itself."""
    best = 0.0
    for threshold in [-100.0, *scores.values()]:
        made = {name: "" if scores[name] > threshold else texts[name] for name in golds}
        best = max(best, score_answers(made, golds, language="en")["f1"])
    return best


def test_no_threshold_is_better() -> None:
    words = "red fox hen cow pig owl".split()
    drawn = random.Random(5)
    for _ in range(40):
        golds = {
            str(number): Gold(tuple(drawn.choices(words)) if drawn.random() < 0.5 else ())
            for number in range(12)
        }
        golds |= {"none": Gold(()), "some": Gold(("red",))}
        texts = {name: " ".join(drawn.choices(words, k=2)) for name in golds}
        scores = dict(zip(golds, drawn.sample(range(-50, 50), len(golds)), strict=True))
        no_answer = {name: NoAnswer(scores[name], texts[name]) for name in golds}
        found = score_answers(texts, golds, language="en", no_answer=no_answer)
        numbers = {name: float(score) for name, score in scores.items()}
        assert found["best_f1"] == pytest.approx(by_trying(numbers, texts, golds))


def test_the_order_of_distinct_scores_changes_nothing() -> None:
    scores = {"h1": -3.0, "h2": 0.5, "h3": 4.0, "n1": 2.0, "n2": 3.0}
    found = {swept(dict(order)) for order in itertools.permutations(scores.items())}
    assert len(found) == 1
