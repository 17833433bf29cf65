"""Exact match and F1 by the official SQuAD 1.1 definition."""

from __future__ import annotations

import pytest

from lightwork.tasks.extractive.scoring.english import exact_match, f1, normalized, squad_scores


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
        # Nothing is left of either: the 1.1 definition finds no shared word.
        ("the", "a", 1, 0),
    ],
)
def test_one_answer(prediction: str, gold: str, exact: int, overlap: float) -> None:
    assert exact_match(prediction, gold) == exact
    assert f1(prediction, gold) == pytest.approx(overlap)


def test_articles_go_only_as_whole_words() -> None:
    assert normalized("An anthem, the theme; a-b A") == "anthem theme ab"


def test_the_best_gold_counts_and_missing_ones_are_wrong() -> None:
    golds = {"p1": ["Nell"], "p2": ["one", "12 pigs"], "p3": ["Lund"], "p4": []}
    scores = squad_scores({"p1": "nell", "p2": "12", "p4": "", "zz": "stray"}, golds)
    assert scores == {
        "exact_match": 50.0,
        "f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 4),
        "total": 4,
        "missing": 1,
        "unknown": 1,
    }
    assert squad_scores({"p4": "Lund"}, {"p4": []})["exact_match"] == 0.0
    assert squad_scores({"p4": "Lund"}, {"p4": []})["f1"] == 0.0


def test_no_questions_are_no_division_by_zero() -> None:
    assert squad_scores({}, {}) == {
        "exact_match": 0.0,
        "f1": 0.0,
        "total": 0,
        "missing": 0,
        "unknown": 0,
    }
