"""Chinese answers by the definition of CMRC 2018."""

from __future__ import annotations

import pytest

from lightwork.tasks.extractive.scoring.chinese import words
from lightwork.tasks.extractive.scoring.rules import shared_run
from lightwork.tasks.extractive.scoring.score import Gold, score_answers


@pytest.mark.parametrize(
    ("prediction", "gold", "exact", "overlap"),
    [
        ("二〇〇二年。", "二〇〇二年", 1, 1),
        ("大剧院", "山城大剧院", 0, 3 / 4),
        # A run counts, not a bag: the same characters in another order.
        ("北门与南门", "南门与北门", 0, 2 / 5),
        ("春江", "《春江》", 1, 1),
        # No folding of widths.
        ("42人", "４２人", 0, 1 / 2),
        ("nova7号", "Nova 7号", 0, 2 / 5),
        # Blanks are no tokens, but the string keeps them.
        ("海 阳 县", "海阳县", 0, 1),
        ("", "东湖", 0, 0),
        # One run of signs and letters is cut into words where signs were.
        ("A-B型", "ab型", 1, 1),
        ("50%", "50％", 0, 0),
        ("约50%", "50%", 0, 2 * (2 / 3) / (2 / 3 + 1)),
        # A single character of the ellipsis is not in the list.
        ("等等…", "等等", 0, 2 * (2 / 3) / (2 / 3 + 1)),
        # Outside U+4E00 to U+9FA5 characters form words.
        ("〇〇七", "〇七", 0, 1 / 2),
        ("\u9fa5\u9fa5", "\u9fa5", 0, 2 / 3),
        ("\u9fa6\u9fa6", "\u9fa6", 0, 0),
    ],
)
@pytest.mark.parametrize("language", ["zh", "zh-hant"])
def test_one_answer(prediction: str, gold: str, exact: int, overlap: float, language: str) -> None:
    scores = score_answers({"q": prediction}, {"q": Gold((gold,))}, language=language)
    assert scores["exact_match"] == 100 * exact
    assert scores["f1"] == pytest.approx(100 * overlap)


def test_the_best_gold_counts_and_missing_predictions_are_wrong() -> None:
    golds = {"a": Gold(("江边", "江边小城")), "b": Gold(("北门",))}
    scores = score_answers({"a": "江边小城"}, golds, language="zh")
    assert (scores["exact_match"], scores["f1"], scores["missing"]) == (50.0, 50.0, 1)


def test_questions_without_an_answer_in_chinese() -> None:
    golds = {"a": Gold(("江边",)), "b": Gold(()), "c": Gold(())}
    scores = score_answers({"a": "江边", "b": "。", "c": "江"}, golds, language="zh")
    assert (scores["HasAns_f1"], scores["NoAns_exact"], scores["NoAns_f1"]) == (100.0, 50.0, 50.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # As NLTK 3.10 cuts them.
        ("new york 1,200 3.5kg", "new york 1,200 3.5kg"),
        ("a, b; c", "a , b ; c"),
        ("50%$5#1a&b", "50 % $ 5 # 1a & b"),
        ("u.s. army of the u.s.", "u.s. army of the u.s ."),
        ('he said "no (never)".', "he said `` no ( never ) '' ."),
        ("2007–08——end...", "2007 – 08 — — end ..."),
        ("it's james' dog, don't we'll", "it 's james ' dog , do n't we 'll"),
        ("[1] <b> {c} what?!", "[ 1 ] < b > { c } what ? !"),
        ("カタカナ １２％", "カタカナ １２％"),
    ],
)
def test_what_is_not_chinese_is_cut_into_words(text: str, expected: str) -> None:
    assert words(text) == expected.split()


def test_the_signs_that_are_dropped() -> None:
    dropped = set("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
    kept = set(".,!?()[]<>'\"%&#@…—‘〈〉【】．％ ") - dropped
    for sign in dropped | kept:
        golds = {"q": Gold(("山城",))}
        right = score_answers({"q": f"山{sign}城"}, golds, language="zh")["exact_match"]
        assert right == 100 * (sign in dropped), sign


def test_the_longest_shared_run() -> None:
    assert shared_run("abcabd", "xabdabc") == 3
    assert shared_run("aaaa", "aa") == 2
    assert shared_run("", "a") == shared_run("a", "") == shared_run("a", "b") == 0
