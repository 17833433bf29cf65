"""Scores of real data sets and of known tables, and agreement with another implementation."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.scoring.score import Gold, NoAnswer, definition, score_answers

WORDS = ["The", "a", "an", "red", "kite", "north-east", "1,200", "U.S.", "café", "Wren's", "of"]


@pytest.fixture
def case(shared: Path) -> Callable[[int], Path]:
    """``case(24)`` is the folder whose name begins with 24."""
    return lambda number: next((shared / "cases").glob(f"{number:02}-*"))


def loaded(path: Path) -> Any:
    return json.loads(path.read_bytes())


def read_golds(path: Path) -> dict[str, Gold]:
    return {
        item.id: Gold(tuple(answer.text for answer in item.answers), item.context)
        for item in read_examples([path], on_mismatch="drop")
    }


def rounded(scores: dict[str, float | int]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in scores.items()}


def check_table(folder: Path, language: str, names: tuple[str, str]) -> dict[str, float]:
    """Every question of a table by itself; the scores of all."""
    golds = read_golds(folder / "input.json")
    predictions = loaded(folder / "predictions.json")
    for name, expected in loaded(folder / "expect.json")["per_question"].items():
        mine = {key: text for key, text in predictions.items() if key == name}
        scores = score_answers(mine, {name: golds[name]}, language=language)
        assert scores["exact_match"] == 100 * expected[names[0]], name
        assert scores["f1"] == pytest.approx(100 * expected[names[1]], abs=0.01), name
    return rounded(score_answers(predictions, golds, language=language))


@pytest.mark.shared
def test_the_table_of_english_scores(case: Callable[[int], Path]) -> None:
    scores = check_table(case(24), "en", ("v11_em", "v11_f1"))
    totals = loaded(case(24) / "expect.json")["totals_percent"]
    assert (scores["exact_match"], scores["f1"]) == (totals["v11_em"], totals["v11_f1"])
    golds = read_golds(case(24) / "input.json")
    predictions = {**loaded(case(24) / "predictions.json"), "none": ""}
    with_none = rounded(score_answers(predictions, {**golds, "none": Gold(())}, language="en"))
    assert with_none["HasAns_exact"] == totals["v2_em"]
    assert with_none["HasAns_f1"] == totals["v2_f1"]


@pytest.mark.shared
def test_the_table_of_chinese_scores(case: Callable[[int], Path]) -> None:
    scores = check_table(case(26), "zh", ("em", "f1"))
    totals = loaded(case(26) / "expect.json")["totals"]
    assert (scores["exact_match"], scores["f1"]) == (totals["em"], totals["f1"])
    assert (scores["total"], scores["missing"]) == (totals["total"], totals["skip"])


@pytest.mark.shared
def test_missing_and_unknown_predictions(case: Callable[[int], Path]) -> None:
    golds = read_golds(case(27) / "input.json")
    predictions = loaded(case(27) / "predictions.json")
    expected = loaded(case(27) / "expect.json")
    answerable = {name: gold for name, gold in golds.items() if gold.answers}
    old = rounded(score_answers(predictions, answerable))
    rule = expected["v1.1 rule (p1..p3 only)"]
    assert (old["exact_match"], old["f1"]) == (rule["em"], rule["f1"])
    assert old["total"] == rule["denominator"]
    scores = rounded(score_answers(predictions, golds))
    official = expected["v2 official script"]
    assert scores["official_exact"] == official["exact"]
    assert scores["official_f1"] == official["f1"]
    assert scores["official_total"] == official["total"]
    assert (scores["exact_match"], scores["missing"], scores["unknown"]) == (50.0, 1, 1)


@pytest.mark.shared
def test_the_threshold_for_no_answer(case: Callable[[int], Path]) -> None:
    golds = read_golds(case(28) / "input.json")
    texts = loaded(case(28) / "predictions.json")
    likely = loaded(case(28) / "na_prob.json")
    expected = loaded(case(28) / "expect.json")
    for numbers, best in (
        (likely, expected),
        (dict.fromkeys(likely, 0), expected["all_na_prob_zero"]),
    ):
        no_answer = {name: NoAnswer(number, texts[name]) for name, number in numbers.items()}
        scores = rounded(score_answers(texts, golds, no_answer=no_answer))
        assert [scores["best_exact"], scores["best_exact_thresh"]] == best["best_exact"]
        assert [scores["best_f1"], scores["best_f1_thresh"]] == best["best_f1"]
    assert scores["exact_match"] == expected["no_threshold"]["exact"]
    assert scores["f1"] == expected["no_threshold"]["f1"]
    assert scores["HasAns_exact"] == expected["HasAns"]["exact"]
    assert scores["HasAns_f1"] == expected["HasAns"]["f1"]
    assert scores["NoAns_exact"] == expected["NoAns"]["exact"]
    cut = {name: "" if likely[name] > 0.5 else text for name, text in texts.items()}
    scores = rounded(score_answers(cut, golds))
    assert scores["exact_match"] == expected["threshold_0.5"]["exact"]
    assert scores["f1"] == expected["threshold_0.5"]["f1"]


@pytest.mark.shared
def test_generated_answers(case: Callable[[int], Path]) -> None:
    expected = loaded(case(31) / "expect.json")
    golds = {
        name: Gold(tuple(answers))
        for name, answers in loaded(case(31) / "input.json")["gold"].items()
    }
    scores = rounded(score_answers(expected["texts"], golds, language="en"))
    assert (scores["exact_match"], scores["f1"]) == (expected["exact"], expected["f1"])


@pytest.mark.shared
def test_any_sharding_gives_the_same_scores(case: Callable[[int], Path]) -> None:
    facts, expected = loaded(case(30) / "input.json"), loaded(case(30) / "expect.json")
    words = {1: "red kite", 0.5: "red fox", 0.25: "red fox hen cow pig owl", 0: "fox"}
    texts = {name: words[share] for name, share in zip(facts["ids"], facts["f1"], strict=True)}
    golds = {name: Gold(("red kite",)) for name in facts["ids"]}
    for sharding in facts["shardings"].values():
        merged = {name: texts[name] for shard in sharding["shards"] for name in shard}
        scores = rounded(score_answers(merged, golds, language="en"))
        assert scores["exact_match"] == expected["em"]
        assert scores["f1"] == expected["f1"]
        assert (scores["total"], scores["missing"]) == (expected["total"], 0)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "words", "lost"),
    [
        ("xquad/xquad.en.json", "English (SQuAD 1.1)", 0),
        ("xquad/xquad.zh.json", "Chinese (CMRC 2018)", 0),
        ("cmrc2018-trial/cmrc2018_trial.json", "Chinese (CMRC 2018)", 0),
        ("squad2-cs224n/dev-v2.0.json", "English (SQuAD 2.0)", 0),
        # Nothing is left of one gold answer, an article: SQuAD 1.1 gives it an F1 of 0.
        ("squadshifts/new_wiki_v1.0.json", "English (SQuAD 1.1)", 1),
    ],
)
def test_gold_answers_are_right(shared: Path, file: str, words: str, lost: int) -> None:
    golds = read_golds(shared / "data" / file)
    assert str(definition(golds)) == f"scored as {words}"
    predictions = {name: gold.answers[0] if gold.answers else "" for name, gold in golds.items()}
    scores = score_answers(predictions, golds)
    assert scores["exact_match"] == 100.0
    assert scores["f1"] == pytest.approx(100 * (1 - lost / len(golds)))
    assert scores["total"] == len(golds)


@pytest.mark.shared
def test_a_set_in_two_languages(shared: Path) -> None:
    english = read_golds(shared / "data/xquad/xquad.en.json")
    chinese = list(read_golds(shared / "data/xquad/xquad.zh.json").items())[:238]
    golds = dict(list(english.items())[:952]) | {f"zh-{name}": gold for name, gold in chinese}
    words = str(definition(golds))
    assert words == "952 questions as English (SQuAD 1.1), 238 as Chinese (CMRC 2018)"


@pytest.mark.shared
def test_always_and_never_answering(shared: Path) -> None:
    golds = read_golds(shared / "data/squad2-cs224n/dev-v2.0.json")
    answerable = sum(bool(gold.answers) for gold in golds.values())
    none = 100 * (1 - answerable / len(golds))
    never = score_answers(dict.fromkeys(golds, ""), golds)
    assert never["exact_match"] == never["f1"] == pytest.approx(none)
    assert (never["HasAns_f1"], never["NoAns_f1"]) == (0.0, 100.0)
    assert (never["HasAns_total"], never["NoAns_total"]) == (answerable, len(golds) - answerable)
    always = {name: " ".join(gold.context.split()[:3]) for name, gold in golds.items()}
    no_answer = {name: NoAnswer(len(text), text) for name, text in always.items()}
    scores = score_answers(always, golds, no_answer=no_answer)
    exact, f1 = literally(always, golds)
    assert scores["exact_match"] == pytest.approx(exact, abs=1e-9)
    assert scores["f1"] == pytest.approx(f1, abs=1e-9)
    assert scores["NoAns_f1"] == 0.0
    assert scores["best_f1"] > none - 1e-9


def literally(predictions: dict[str, str], golds: dict[str, Gold]) -> tuple[float, float]:
    """SQuAD 2.0 once more, character by character and word by word."""

    def words(text: str) -> list[str]:
        kept = "".join(sign for sign in text.lower() if sign not in SIGNS)
        runs = ("".join(run) for _, run in groupby(kept, lambda sign: sign.isalnum()))
        return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()

    exact = f1 = 0.0
    for name, gold in golds.items():
        given = words(predictions[name])
        best = [0.0, 0.0]
        for answer in gold.answers or ("",):
            expected = words(answer)
            left, same = list(expected), 0
            for word in given:
                if word in left:
                    left.remove(word)
                    same += 1
            both = len(given) + len(expected)
            share = 2 * same / both if given and expected else float(given == expected)
            best = [max(best[0], float(given == expected)), max(best[1], share)]
        exact, f1 = exact + best[0], f1 + best[1]
    return 100 * exact / len(golds), 100 * f1 / len(golds)


SIGNS = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def near_miss(drawn: random.Random, text: str) -> str:
    """A text with one word or sign changed, added, or lost."""
    words = text.split()
    at = drawn.randrange(len(words))
    change = drawn.choice(["drop", "add", "double", "case", "sign", "none"])
    if change == "drop" and len(words) > 1:
        del words[at]
    elif change == "add":
        words.insert(at, drawn.choice(WORDS))
    elif change == "double":
        words.insert(at, words[at])
    elif change == "case":
        words[at] = words[at].swapcase()
    elif change == "sign":
        words[at] += drawn.choice(list(".,!’“-\u00a0"))
    return drawn.choice([" ", "  ", "\n"]).join(words)


def test_another_implementation_agrees() -> None:
    """5,000 random and near-miss predictions; torchmetrics counts in single precision."""
    text = pytest.importorskip("torchmetrics.functional.text")
    drawn = random.Random(11)

    def answer() -> str:
        return " ".join(["kite", *drawn.choices(WORDS, k=drawn.randint(0, 4))])

    golds = {str(at): Gold(tuple(answer() for _ in range(3))) for at in range(5000)}
    predictions = {
        name: near_miss(drawn, drawn.choice([*gold.answers, answer()]))
        for name, gold in golds.items()
    }
    for name, gold in golds.items():
        mine = score_answers({name: predictions[name]}, {name: gold}, language="en")
        theirs = text.squad(
            {"prediction_text": predictions[name], "id": name},
            {"answers": {"answer_start": [0] * 3, "text": list(gold.answers)}, "id": name},
        )
        assert mine["exact_match"] == float(theirs["exact_match"]), (predictions[name], gold)
        assert mine["f1"] == pytest.approx(float(theirs["f1"]), rel=1e-6), (predictions[name], gold)
    scores = score_answers(predictions, golds, language="en")
    assert 20 < scores["exact_match"] < scores["f1"] < 95
