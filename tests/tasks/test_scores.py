"""Exact match and F1 by the official definitions of SQuAD 1.1 and 2.0."""

from __future__ import annotations

import random

import pytest

from lightwork.tasks.extractive.scoring.english import normalized
from lightwork.tasks.extractive.scoring.score import Gold, score_answers


def one(prediction: str, *answers: str, others: dict[str, Gold] | None = None) -> tuple[float, ...]:
    """Exact match and F1 of one English question, as shares."""
    golds = {"q": Gold(answers), **(others or {})}
    scores = score_answers({"q": prediction}, golds, language="en")
    return tuple(scores[name] * len(golds) / 100 for name in ("exact_match", "f1"))


@pytest.mark.parametrize(
    ("prediction", "gold", "exact", "overlap"),
    [
        ("stone bridge!", "The Stone Bridge", 1, 1),
        ("2500 boats", "2,500 boats", 1, 1),
        ("BC 44", "B.C. 44", 1, 1),
        ("south west road", "south-west road", 0, 2 / 5),
        ("brulee tart", "brulée tart", 0, 1 / 2),
        ("blue finch finch", "blue blue finch", 0, 2 / 3),
        ("Owl's Nest", "Owl’s Nest", 0, 1 / 2),
        (" nine\n", "nine", 1, 1),
        ("the\u00a0red  door", "red door", 1, 1),
        ("", "nine", 0, 0),
        ("pear day", "a pear the day", 1, 1),
        ("banana", "bananas", 0, 0),
        ("a’s", "’s", 1, 1),
    ],
)
def test_one_answer(prediction: str, gold: str, exact: int, overlap: float) -> None:
    assert one(prediction, gold) == pytest.approx((exact, overlap))
    # A question without an answer beside it makes it SQuAD 2.0, where these are the same.
    other = {"none": Gold(())}
    assert one(prediction, gold, others=other) == pytest.approx((exact, overlap))


def test_articles_go_only_as_whole_words() -> None:
    assert normalized("An anthem, the theme; a-b A") == "anthem theme ab"


def test_the_best_gold_counts_for_each_score_by_itself() -> None:
    assert one("12", "one", "12 pigs") == pytest.approx((0, 2 / 3))
    assert one("red", "red", "red red red") == (1, 1)


def test_two_texts_of_which_nothing_is_left() -> None:
    other = {"none": Gold(())}
    # 1.1 finds no shared word; 2.0 says that they agree.
    assert one("the", "a") == (1, 0)
    assert one("the", "a", others=other) == (1, 1)
    # In 2.0 a gold answer of which nothing is left does not count beside another one.
    assert one("the", "a", "red kite") == (1, 0)
    assert one("the", "a", "red kite", others=other) == (0, 0)


MADE = {"p1": Gold(("Nell",)), "p2": Gold(("one", "12 pigs")), "p3": Gold(("Lund",))}


def test_missing_predictions_are_wrong_and_stay_in_the_total() -> None:
    assert score_answers({"p1": "nell", "p2": "12", "zz": "stray"}, MADE, language="en") == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 2 / 3) / 3),
        "total": 3,
        "missing": 1,
        "unknown": 1,
    }


def test_questions_without_an_answer_are_counted_apart() -> None:
    golds = {**MADE, "p4": Gold(()), "p5": Gold(())}
    scores = score_answers({"p1": "nell", "p2": "12", "p4": "the"}, golds, language="en")
    assert scores == {
        "exact_match": pytest.approx(100 * 2 / 5),
        "f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 5),
        "total": 5,
        "missing": 2,
        "unknown": 0,
        "HasAns_exact": pytest.approx(100 / 3),
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 3),
        "HasAns_total": 3,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
        # The official script leaves out what is missing.
        "official_exact": pytest.approx(100 * 2 / 3),
        "official_f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 3),
        "official_total": 3,
    }
    whole = score_answers(dict.fromkeys(golds, "Lund"), golds, language="en")
    assert "official_f1" not in whole
    assert whole["NoAns_f1"] == 0.0


def test_no_questions_are_no_division_by_zero() -> None:
    assert score_answers({}, {}) == {
        "exact_match": 0.0,
        "f1": 0.0,
        "total": 0,
        "missing": 0,
        "unknown": 0,
    }


def test_the_order_of_the_predictions_changes_nothing() -> None:
    words = "red fox hen cow pig owl".split()
    drawn = random.Random(3)
    golds = {
        f"q{number}": Gold((" ".join(drawn.choices(words, k=drawn.randint(1, 5))),))
        for number in range(200)
    }
    made = {name: " ".join(drawn.choices(words, k=3)) for name in golds}
    shuffled = list(made.items())
    drawn.shuffle(shuffled)
    scores = score_answers(made, golds, language="en")
    assert 0 < scores["f1"] < 100
    assert score_answers(dict(shuffled), golds, language="en") == scores
