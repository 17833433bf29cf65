"""Which languages texts are in, and which model that leads to."""

from __future__ import annotations

from collections import Counter

import pytest

from lightwork.planner.models import HUB, INSTEAD, advise
from lightwork.tasks.extractive.languages import (
    AUTO,
    ENGLISH,
    LANGUAGE_NAMES,
    LANGUAGES,
    OTHER_LATIN,
    language_code,
    language_mix,
    language_shares,
    languages_of,
)
from lightwork.tasks.extractive.scoring.definitions import Gold, definition
from tests.tasks.made import example

TOWER = "The tower was built by an engineer of the city and it is the highest building there."
TEXTS = {
    "English": ("Who built the tower?", TOWER),
    "Chinese": ("什么是COVID-19？", "新型冠状病毒肺炎(COVID-19)由SARS-CoV-2引起的急性呼吸道疾病。"),
    "Japanese": (
        "首都はどこですか",
        "東京は日本の首都である。人口は約1400万人で、世界最大の都市圏である。",
    ),
    "Korean": ("수도는 어디입니까", "서울은 대한민국의 수도이다."),
    "Cyrillic script": ("Кто построил башню?", "Башню построил инженер из Москвы."),
    "Arabic script": ("من بنى البرج؟", "بنى البرج مهندس من المدينة"),
    "Devanagari script": ("राजधानी क्या है", "दिल्ली भारत की राजधानी है"),
    "another script": ("𐌰𐌱", "𐌰𐌱𐌲"),
}
LATIN = {
    "German": ("Wer hat den Turm gebaut?", "Der Turm wurde 1957 von einem Ingenieur gebaut, der "
               "in der Stadt wohnte und für die Bahn arbeitete."),
    "Dutch": ("Wat is de hoofdstad?", "Amsterdam is de hoofdstad van Nederland en de stad heeft "
              "meer dan een miljoen inwoners of zoiets, en het was vroeger een dorp."),
    "French": ("Qui est le président?", "Le président de la République est le chef de l'État. Il "
               "est élu pour cinq ans et nomme le premier ministre. On parle de lui."),
    "Spanish": ("¿Quién es el rey?", "El rey de España es el jefe del Estado, símbolo de su "
                "unidad y permanencia."),
    "Vietnamese": ("Ai là tổng thống?", "Thành phố Hồ Chí Minh là thành phố lớn nhất ở Việt Nam."),
}  # fmt: skip


@pytest.mark.parametrize("language", TEXTS)
def test_languages(language: str) -> None:
    question, context = TEXTS[language]
    assert language_mix([example("1", question, context)]) == {language: 1.0}


@pytest.mark.parametrize("language", LATIN)
def test_other_languages_in_latin_script_are_not_english(language: str) -> None:
    question, context = LATIN[language]
    assert language_mix([example("1", question, context)]) == {OTHER_LATIN: 1.0}


def test_a_short_question_is_english_by_its_context() -> None:
    assert language_mix([example("1", "Engineer?", TOWER)]) == {ENGLISH: 1.0}


def test_a_mixture_counts_questions_and_contexts_alike() -> None:
    items = [example("1", "谁建造了塔？", TOWER), *[example(str(i), "Who?", TOWER) for i in (2, 3)]]
    mix = language_mix(items)
    assert list(mix) == ["English", "Chinese"]
    assert mix["Chinese"] == pytest.approx(1 / 6)


def test_texts_without_letters_do_not_count() -> None:
    assert language_mix([example("1", "?", "12 - 4")]) == {}
    assert language_mix([example("1", "Who built the tower?", "12 - 4")]) == {ENGLISH: 1.0}


@pytest.mark.parametrize(
    ("mix", "name"),
    [
        ({"English": 0.95, "Chinese": 0.05}, "google-bert/bert-base-uncased"),
        ({"Chinese": 0.9, "English": 0.1}, "google-bert/bert-base-chinese"),
        ({"English": 0.8, "Chinese": 0.2}, "FacebookAI/xlm-roberta-base"),
        ({"Japanese": 1.0}, "FacebookAI/xlm-roberta-base"),
        ({OTHER_LATIN: 1.0}, "FacebookAI/xlm-roberta-base"),
        ({}, "FacebookAI/xlm-roberta-base"),
    ],
)
def test_advice(mix: dict[str, float], name: str) -> None:
    assert advise(mix) == name
    assert name in HUB
    assert name in INSTEAD


CODES = {
    "en": TOWER,
    "zh": "望江塔建于1957年，是这座城市中最高的建筑，从那里可以看见长江。",
    "zh-hant": "望江塔建於1957年，是這座城市中最高的建築，從那裡可以看見長江。",
    "ja": TEXTS["Japanese"][1],
    "ko": TEXTS["Korean"][1],
    "ar": TEXTS["Arabic script"][1],
    "hi": TEXTS["Devanagari script"][1],
    "el": "Ο πύργος χτίστηκε από έναν μηχανικό της πόλης.",
    "th": "หอคอยนี้สร้างโดยวิศวกรของเมือง",
    "de": LATIN["German"][1],
    "es": LATIN["Spanish"][1],
    "fr": LATIN["French"][1],
    "vi": "Tháp là công trình cao nhất của thành phố và được xây trong năm 1957.",
    "it": "La torre fu costruita da un ingegnere della città ed è l'edificio più alto del paese; "
    "il museo si trova in uno dei piani.",
    "pt": "A torre foi construída por um engenheiro da cidade e é o edifício mais alto do país.",
}


@pytest.mark.parametrize("code", CODES)
def test_codes(code: str) -> None:
    assert language_code(CODES[code]) == code


@pytest.mark.parametrize(
    "text",
    [
        LATIN["Dutch"][1],
        "Башню построил инженер из Москвы.",
        # Persian and Urdu share their script with Arabic, not their articles.
        "این برج در سال ۱۹۵۷ توسط یک مهندس از شهر ساخته شد و گردشگران زیادی دارد",
        "یہ مینار شہر کے ایک انجینئر نے تعمیر کیا تھا",
        # One word that English has too, twice, makes no English.
        "Jest to wieża, to zabytek w okolicy miasta nad rzeką, który odwiedza wielu turystów, a "
        "jego wysokość wynosi sto metrów.",
        # Short, and written with plain letters only, but not English.
        "Menara itu dibangun pada tahun 1957 oleh seorang insinyur.",
        "To jest stary dom, to jest nowy most nad rzeka.",
        "De toren werd gebouwd door een ingenieur.",
        "𐌰𐌱𐌲",
    ],
)
def test_languages_that_are_not_told_apart(text: str) -> None:
    assert language_code(text) == "other"


def test_a_text_without_letters_has_no_code() -> None:
    assert language_code("12 - 4") == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("unused", "en"),
        ("Kell Brell Ravel", "en"),
        ("Kell Brell Ravel Tarn Dunmore", "en"),  # five words
        ("Kell Brell Ravel Tarn Dunmore Wick", "other"),
        ("Ada Pell runs the shop in Kell.", "en"),
        ("Old Anna has a green lamp.", "en"),
        ("Zoë Pell runs the shop in Kell.", "en"),
        ("Übung", "other"),
    ],
)
def test_few_words_are_english_where_nothing_speaks_against_it(text: str, code: str) -> None:
    assert language_code(text) == code


def test_shares_are_those_that_scoring_decides_by() -> None:
    """``lightwork data`` and ``lightwork score`` say the same."""
    texts = [*CODES.values(), "Menara itu dibangun pada tahun 1957 oleh seorang insinyur.", "12"]
    items = [example(str(number), "Who?", text, text) for number, text in enumerate(texts)]
    items.append(example("answer", "Who?", "12 - 4"))
    golds = {
        item.id: Gold(tuple(answer.text for answer in item.answers), item.context) for item in items
    }
    scored = Counter(LANGUAGE_NAMES[code] for code in definition(golds).languages.values())
    assert language_shares(items) == {name: n / len(items) for name, n in scored.items()}
    assert scored["another language"] == scored["Traditional Chinese"] == 1
    assert scored["English"] == 3


def test_the_question_has_no_say_in_how_its_answers_are_scored() -> None:
    assert language_shares([example("1", "谁建造了塔？", TOWER)]) == {"English": 1.0}
    items = [example(str(number), "?", TOWER) for number in range(3)]
    items.append(example("z", "?", CODES["zh-hant"]))
    assert list(language_shares(items).items()) == [
        ("English", 0.75),
        ("Traditional Chinese", 0.25),
    ]


def test_every_code_has_a_name() -> None:
    assert list(LANGUAGES) == [AUTO, *LANGUAGE_NAMES]
    assert len(set(LANGUAGE_NAMES.values())) == len(LANGUAGE_NAMES)
    assert set(CODES) <= set(LANGUAGES)


def test_what_cannot_be_told_is_what_its_neighbours_are() -> None:
    plain = "The tower of the harbour was built by the old master in the winter ."
    names = "Dorila Nordahl Talmere Nalek Torby Kell Brell Ravel"
    tower = "望江塔建于1957年，由王某设计。塔内使用灯光，共有十二层。"
    many = [(f"{plain} {n}", ["x"]) for n in range(19)]
    assert languages_of([(names, ["x"])]) == ["other"], "alone nothing tells it"
    assert languages_of([*many, (names, ["x"]), (tower, ["x"])]) == ["en"] * 20 + ["zh"]
    assert languages_of([*many[:5], (names, ["x"])])[-1] == "other", "too few neighbours"
