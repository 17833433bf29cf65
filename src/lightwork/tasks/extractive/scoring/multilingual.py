"""Answers in other languages, as MLQA compares them (Lewis et al., 2020).

Source: ``mlqa_evaluation_v1.py``, https://github.com/facebookresearch/MLQA. Both texts are
lower-cased, lose punctuation (the Unicode categories P and ASCII punctuation) and the articles of
their language, and have their white space squeezed; F1 counts words. The script knows Arabic,
German, English, Spanish, Hindi, Vietnamese and Chinese.

Other languages are scored alike, without articles. Where they are written without blanks between
words, every character is a word of its own, as the script does with Chinese ones.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable

from lightwork.tasks.extractive.scoring.rules import Compared

_ARTICLES = {
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # The script takes the article away wherever its two letters stand, in the middle of words too.
    "ar": "ال",
}
_WITHOUT_ARTICLES = ("hi",)

# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han.
_WITHOUT_BLANKS = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U000323af])"
)


class _Punctuation(dict[int, int | None]):
    """A table for ``str.translate`` that learns each character when it first comes."""

    def __missing__(self, code: int) -> int | None:
        sign = chr(code)
        dropped = sign in string.punctuation or unicodedata.category(sign).startswith("P")
        self[code] = None if dropped else code
        return self[code]


_DROPPED = _Punctuation()


def comparison(language: str) -> Callable[[str], Compared]:
    """How an answer in ``language`` (a code, or ``other``) is normalised."""
    articles = re.compile(_ARTICLES[language]) if language in _ARTICLES else None
    in_the_script = language in _ARTICLES or language in _WITHOUT_ARTICLES

    def compared(text: str) -> Compared:
        plain = text.lower().translate(_DROPPED)
        if articles is not None:
            plain = articles.sub(" ", plain)
        if not in_the_script:
            plain = _WITHOUT_BLANKS.sub(r" \1 ", plain)
        words = plain.split()
        return Compared(" ".join(words), words)

    return compared
