"""Which languages a set of questions is in, as far as scripts and a few English words tell.

A guess for choosing a pretrained model, not a classification: Latin script is called English when
enough of its words are common English ones, and Chinese characters are called Chinese unless kana
stand among them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from lightwork.tasks.extractive.examples import Example

ENGLISH, CHINESE, JAPANESE, KOREAN = "English", "Chinese", "Japanese", "Korean"
OTHER_LATIN, OTHER = "another language in Latin script", "another script"

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


def _language(text: str, words_of: str) -> str:
    """The main language of ``text``; ``words_of`` is where English words are looked for."""
    scripts = _scripts(text)
    if not scripts:
        return ""
    han, kana = scripts["Han"], scripts["Kana"]
    if han + kana:
        japanese = kana >= _KANA_OF_JAPANESE * (han + kana)
        scripts["Kana" if japanese else "Han"] = han + kana
    script = max(scripts, key=lambda name: (scripts[name], name))
    if script == "Latin":
        return ENGLISH if _is_english(words_of) else OTHER_LATIN
    names = {"Han": CHINESE, "Kana": JAPANESE, "Hangul": KOREAN, OTHER: OTHER}
    return names.get(script, f"{script} script")


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
