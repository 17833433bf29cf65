"""Other languages by the definitions of MLQA and KorQuAD, and which definition scores what."""

from __future__ import annotations

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.languages import LANGUAGES
from lightwork.tasks.extractive.scoring.score import Gold, definition, score_answers

ENGLISH = "The ferry leaves the harbour at noon and it is the only one of the day."
CHINESE = "望江塔建于1957年，由王某设计。塔内使用灯光，共有十二层。"
KOREAN = "서울은 대한민국의 수도이다."
GERMAN = "Der Turm wurde von einem Ingenieur gebaut, der in der Stadt wohnte und arbeitete."


@pytest.mark.parametrize(
    ("language", "prediction", "gold", "exact", "overlap"),
    [
        ("de", "Brücke", "Die Brücke!", 1, 1),
        ("de", "der „rote“ Turm", "rote Turm", 1, 1),
        ("de", "the bridge", "bridge", 0, 2 / 3),
        ("es", "¿El río?", "río", 1, 1),
        ("vi", "cái cầu", "cầu", 1, 1),
        # The script removes the two letters everywhere.
        ("ar", "الجسر", "جسر", 1, 1),
        ("ar", "سالم", "س م", 1, 1),
        ("hi", "लाल पुल।", "लाल पुल", 1, 1),
        ("hi", "पुल", "लाल पुल", 0, 2 / 3),
        # ASCII signs go even where Unicode does not call them punctuation.
        ("fr", "le pont + $5", "le pont 5", 1, 1),
        ("fr", "pont", "le pont", 0, 2 / 3),
        ("other", "красный мост", "мост", 0, 2 / 3),
        # Without blanks between words every character is one.
        ("ja", "東京タワー", "東京「タワー」", 1, 1),
        ("ja", "東京都", "東京", 0, 4 / 5),
        ("th", "กรุงเทพ", "กรุงเทพ", 1, 1),
        ("th", "กข", "กค", 0, 1 / 2),
        ("other", "NHKの", "nhk の", 1, 1),
        # MLQA's own languages are cut at blanks only.
        ("de", "東京都", "東京", 0, 0),
        # KorQuAD: by characters, quotation marks become blanks.
        ("ko", "서울시", "서울", 0, 4 / 5),
        ("ko", "'서울'의", "서울 의", 1, 1),
        ("ko", "서울.", "서 울", 0, 1),
        ("ko", "《서울》", "서울", 1, 1),
    ],
)
def test_one_answer(language: str, prediction: str, gold: str, exact: int, overlap: float) -> None:
    scores = score_answers({"q": prediction}, {"q": Gold((gold,))}, language=language)
    assert scores["exact_match"] == 100 * exact
    assert scores["f1"] == pytest.approx(100 * overlap)


@pytest.mark.parametrize("language", LANGUAGES)
def test_gold_answers_score_full_marks_in_every_language(language: str) -> None:
    texts = ["red kite", "山城大剧院", "Der Turm", "서울시", "東京タワー", "กรุงเทพ", "برج قديم"]
    golds = {text: Gold(("another one", text), ENGLISH) for text in texts}
    scores = score_answers({text: text for text in texts}, golds, language=language)
    assert scores["exact_match"] == scores["f1"] == 100.0


def test_the_definition_in_words() -> None:
    golds = {"a": Gold(("noon",), ENGLISH)}
    none = {"b": Gold((), ENGLISH)}
    assert str(definition(golds)) == "scored as English (SQuAD 1.1)"
    assert str(definition(golds | none)) == "scored as English (SQuAD 2.0)"
    assert str(definition(golds, "zh")) == "scored as Chinese (CMRC 2018)"
    named = str(definition(golds | none, "zh"))
    assert named == "scored as Chinese (CMRC 2018, no answer as in SQuAD 2.0)"
    assert str(definition(golds, "ko")) == "scored as Korean (KorQuAD 1.0)"
    assert str(definition(golds, "de")) == "scored as German (MLQA)"
    assert str(definition(golds, "ja")) == "scored as Japanese (by the rule of MLQA)"
    traditional = "scored as Traditional Chinese (DRCD, by the script of CMRC 2018)"
    assert str(definition(golds, "zh-hant")) == traditional
    assert str(definition({})) == "no questions to score"


def test_a_language_with_nine_questions_in_ten_scores_them_all() -> None:
    golds = {f"e{number}": Gold(("the noon",), ENGLISH) for number in range(9)}
    golds["z"] = Gold(("山城大剧院",), CHINESE)
    assert str(definition(golds)) == "scored as English (SQuAD 1.1)"
    assert score_answers({"z": "大剧院"}, golds)["f1"] == 0.0


def test_fewer_leave_each_question_its_own() -> None:
    golds = {f"e{number}": Gold(("the noon",), ENGLISH) for number in range(8)}
    golds |= {"z": Gold(("山城大剧院",), CHINESE), "k": Gold(("서울",), KOREAN)}
    found = definition(golds)
    assert (found.languages["z"], found.languages["k"], found.languages["e0"]) == ("zh", "ko", "en")
    assert str(found) == (
        "8 questions as English (SQuAD 1.1), 1 as Chinese (CMRC 2018), 1 as Korean (KorQuAD 1.0)"
    )
    # Each by its own rule: words without articles, a run of characters, a bag of characters.
    scores = score_answers({"e0": "noon", "z": "大剧院", "k": "서울시"}, golds)
    assert scores["f1"] == pytest.approx(100 * (1 + 3 / 4 + 4 / 5) / 10)
    assert scores["exact_match"] == pytest.approx(10)


def test_the_answers_tell_where_the_context_does_not() -> None:
    assert definition({"q": Gold(("山城大剧院",), "12 - 4")}).languages == {"q": "zh"}
    assert definition({"q": Gold((), "")}).languages == {"q": "en"}


def test_a_language_that_is_told_is_not_guessed() -> None:
    golds = {"a": Gold(("die Brücke",), GERMAN)}
    assert definition(golds).languages == {"a": "de"}
    assert score_answers({"a": "Brücke"}, golds)["f1"] == 100.0
    assert score_answers({"a": "Brücke"}, golds, language="en")["f1"] == pytest.approx(200 / 3)


def test_an_unknown_language_names_those_that_are_known() -> None:
    with pytest.raises(DataError, match=r"'xx'.*auto, en, zh, zh-hant"):
        definition({}, "xx")
