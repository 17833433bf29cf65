"""English answers, as SQuAD compares them (Rajpurkar et al., 2016 and 2018).

Source: ``evaluate-v1.1.py`` and ``evaluate-v2.0.py``, https://rajpurkar.github.io/SQuAD-explorer/.
Both texts are lower-cased, lose ASCII punctuation and the words a, an, the, and have their white
space squeezed; F1 counts words. Accents stay, and typographic quotes are no ASCII punctuation.
"""

from __future__ import annotations

import re
import string

from lightwork.tasks.extractive.scoring.rules import Compared

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """What is left of an answer."""
    plain = text.lower().translate(WITHOUT_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", plain).split())


def compared(text: str) -> Compared:
    """The words that are left, and the text they make."""
    plain = normalized(text)
    return Compared(plain, plain.split())
