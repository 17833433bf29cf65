"""Which language a text is in, as far as scripts and a few common words tell.

A guess for choosing a pretrained model (``language_mix``) and a way of scoring (``languages_of``),
not a classification: Latin script is called English when enough of its words are common English
ones, and Chinese characters are called Chinese unless kana stand among them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from lightwork.tasks.extractive.examples import Example

ENGLISH, CHINESE, JAPANESE, KOREAN = "English", "Chinese", "Japanese", "Korean"
OTHER_LATIN, OTHER = "another language in Latin script", "another script"

AUTO = "auto"
LANGUAGE_NAMES = {
    "en": ENGLISH, "zh": CHINESE, "zh-hant": "Traditional Chinese", "ar": "Arabic",
    "de": "German", "el": "Greek", "es": "Spanish", "fr": "French", "hi": "Hindi",
    "it": "Italian", "ja": JAPANESE, "ko": KOREAN, "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "th": "Thai", "tr": "Turkish", "vi": "Vietnamese",
    "other": "another language",
}  # fmt: skip
LANGUAGES = (AUTO, *LANGUAGE_NAMES)
"""The codes of languages that answers can be scored in; ``auto`` finds them out."""

_SHOWN_CHARACTERS = 3000
"""Of every text only its beginning is looked at."""

# First and last code point of the letters of a script.
_RANGES = [
    (0x0041, 0x005A, "Latin"), (0x0061, 0x007A, "Latin"), (0x00C0, 0x024F, "Latin"),
    (0x0370, 0x03FF, "Greek"), (0x0400, 0x052F, "Cyrillic"), (0x0530, 0x058F, "Armenian"),
    (0x0590, 0x05FF, "Hebrew"), (0x0600, 0x06FF, "Arabic"), (0x0750, 0x077F, "Arabic"),
    (0x0900, 0x097F, "Devanagari"), (0x0980, 0x09FF, "Bengali"), (0x0A00, 0x0A7F, "Gurmukhi"),
    (0x0A80, 0x0AFF, "Gujarati"), (0x0B80, 0x0BFF, "Tamil"), (0x0C00, 0x0C7F, "Telugu"),
    (0x0C80, 0x0CFF, "Kannada"), (0x0D00, 0x0D7F, "Malayalam"), (0x0E00, 0x0E7F, "Thai"),
    (0x10A0, 0x10FF, "Georgian"), (0x1100, 0x11FF, "Hangul"), (0x1200, 0x137F, "Ethiopic"),
    (0x1E00, 0x1EFF, "Latin"), (0x1F00, 0x1FFF, "Greek"), (0x3041, 0x30FA, "Kana"),
    (0x30FC, 0x30FF, "Kana"), (0x3400, 0x4DBF, "Han"), (0x4E00, 0x9FFF, "Han"),
    (0xAC00, 0xD7A3, "Hangul"), (0xF900, 0xFAFF, "Han"), (0xFF66, 0xFF9D, "Kana"),
    (0x20000, 0x323AF, "Han"),
]  # fmt: skip
_FIRSTS = [first for first, _, _ in _RANGES]

_LETTERS_PER_SIGN = {"Han": 3, "Kana": 2, "Hangul": 2}
"""How many letters of an alphabet one of these signs says as much as."""

_KANA_OF_JAPANESE = 0.1
_ENGLISH_OF_WORDS = 0.08
_WORD = re.compile(r"[^\W\d_]+")
_COMMON = frozenset(
    "the and of to that for with from are were by this it which what who how when where why did "
    "does have not their they you your can".split()
)
"""Words of English that are no common words of its neighbours."""

_WORDS_OF = {
    "en": _COMMON | frozenset("as been has his".split()),
    "de": frozenset("der die das und ist nicht ein eine von mit auf für im wird wurde".split()),
    "es": frozenset("y en del una por con fue su es como más se lo que".split()),
    "fr": frozenset("le les et des est une du dans par pour il au qui sur".split()),
    "it": frozenset("il di che è della nel con gli del per sono una dei alla".split()),
    "nl": frozenset("het een van en is dat op te zijn met voor niet er meer".split()),
    "pt": frozenset("o os as e em do da dos das uma não com foi ao".split()),
    "vi": frozenset("và của là các được trong có cho một người với những không năm".split()),
}
_COMMON_OF_WORDS = 0.05
"""This share of a text, and two different words, tell its language."""
_SHORT_WORDS = 20
"""A text of fewer words is English by a single word that its neighbours do not have."""
_ONLY_ENGLISH = _WORDS_OF["en"].difference(
    "to of that for are were by it can not have does as his".split()
)
_FEW_WORDS = 6
"""Fewer words than these may lack common ones, whatever their language."""

_LANGUAGE_OF_SCRIPT = {
    "Kana": "ja", "Hangul": "ko", "Devanagari": "hi", "Thai": "th", "Greek": "el",
}  # fmt: skip

_NEARLY_ALL = 0.9

_NOT_ARABIC = frozenset("پچژگکیےڈٹڑںھہۂ")
"""Letters of Persian, Urdu and their neighbours that Arabic does not have."""
_OTHERS_OF_ARABIC = 0.02

_SIMPLIFIED = frozenset(
    "国学会时来对说们为这个发经动应开进种现实业长东车书电马鱼鸟门问间关过还边远运连选达迁"
)
_TRADITIONAL = frozenset(
    "國學會時來對說們為這個發經動應開進種現實業長東車書電馬魚鳥門問間關過還邊遠運連選達遷"
)
"""Frequent characters that are written only the one way, and the same ones written the other."""


def language_mix(examples: Iterable[Example]) -> dict[str, float]:
    """Shares of languages, largest first; half of an example is its context, half its question.

    Texts without letters do not count; the result is empty when there are no others.
    """
    seen: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    for example in examples:
        context = example.context[:_SHOWN_CHARACTERS]
        language = seen.setdefault(("", context), "?")
        if language == "?":
            language = seen["", context] = _language(context, context)
        # A question is short, so the words of its context help to know what Latin letters are.
        question = _language(example.question, f"{example.question} {context}")
        counts.update(name for name in (language, question) if name)
    return {name: count / counts.total() for name, count in counts.most_common()}


def language_shares(examples: Iterable[Example]) -> dict[str, float]:
    """The names of ``languages_of`` with their shares of the questions, largest first."""
    texts = ((item.context, (answer.text for answer in item.answers)) for item in examples)
    counts = Counter(LANGUAGE_NAMES[code] for code in languages_of(texts))
    return {name: count / counts.total() for name, count in counts.most_common()}


def languages_of(questions: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """The codes of the languages that questions, each a context with gold answers, are scored in.

    That of the context; of the answers where it has no letters; English where they have none too.
    Where nearly all that is told in Latin script is one language, what cannot be told is that too:
    a line of names among English ones is English.
    """
    known: dict[str, str] = {}
    codes = []
    for context, answers in questions:
        code = known.get(context)
        if code is None:
            code = known[context] = language_code(context)
        codes.append(code or language_code(" ".join(answers)) or "en")
    latin = Counter(code for code in codes if code in _WORDS_OF or code == "other")
    main, count = latin.most_common(1)[0] if latin else ("other", 0)
    if count >= _NEARLY_ALL * latin.total():
        return [main if code == "other" else code for code in codes]
    return codes


def language_code(text: str) -> str:
    """The code of the main language of a text, one of ``LANGUAGES``; nothing without letters.

    A language that is not told apart from others is ``other``.
    """
    shown = text[:_SHOWN_CHARACTERS]
    script = _main_script(shown)
    if script == "Latin":
        return _latin(shown)
    if script == "Han":
        characters = Counter(shown)
        simplified = sum(characters[character] for character in _SIMPLIFIED)
        traditional = sum(characters[character] for character in _TRADITIONAL)
        return "zh-hant" if traditional > simplified else "zh"
    if script == "Arabic":
        others = sum(character in _NOT_ARABIC for character in shown)
        return "other" if others > _OTHERS_OF_ARABIC * len(shown) else "ar"
    return _LANGUAGE_OF_SCRIPT.get(script, "other") if script else ""


def _latin(text: str) -> str:
    """The language of a text in Latin script."""
    counts = Counter(_WORD.findall(text.lower()))
    words = counts.total()
    found = {
        code: [counts[word] for word in known & counts.keys()] for code, known in _WORDS_OF.items()
    }
    code = max(found, key=lambda name: sum(found[name]))
    if len(found[code]) > 1 and sum(found[code]) >= _COMMON_OF_WORDS * words:
        return code if code in LANGUAGE_NAMES else "other"
    if words < _SHORT_WORDS and code == "en" and _ONLY_ENGLISH & counts.keys():
        return "en"
    return "en" if words < _FEW_WORDS and text.isascii() else "other"


def _language(text: str, words_of: str) -> str:
    """The main language of ``text``; ``words_of`` is where English words are looked for."""
    script = _main_script(text)
    if not script:
        return ""
    if script == "Latin":
        return ENGLISH if _is_english(words_of) else OTHER_LATIN
    names = {"Han": CHINESE, "Kana": JAPANESE, "Hangul": KOREAN, OTHER: OTHER}
    return names.get(script, f"{script} script")


def _main_script(text: str) -> str:
    """The script that says most of ``text``; nothing without letters."""
    scripts = _scripts(text)
    if not scripts:
        return ""
    han, kana = scripts["Han"], scripts["Kana"]
    if han + kana:
        japanese = kana >= _KANA_OF_JAPANESE * (han + kana)
        scripts["Kana" if japanese else "Han"] = han + kana
    return max(scripts, key=lambda name: (scripts[name], name))


def _scripts(text: str) -> Counter[str]:
    """Letters of every script in ``text``."""
    scripts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        place = bisect_right(_FIRSTS, ord(character)) - 1
        if place >= 0 and ord(character) <= _RANGES[place][1]:
            script = _RANGES[place][2]
            scripts[script] += count * _LETTERS_PER_SIGN.get(script, 1)
        elif character.isalpha():
            scripts[OTHER] += count
    return scripts


def _is_english(text: str) -> bool:
    words = _WORD.findall(text.lower())
    return sum(word in _COMMON for word in words) >= _ENGLISH_OF_WORDS * max(len(words), 1)
