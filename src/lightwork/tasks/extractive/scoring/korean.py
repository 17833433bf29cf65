"""Korean answers, as KorQuAD 1.0 compares them (Lim et al., 2019).

Source: ``evaluate-v1.0.py`` of KorQuAD 1.0, https://korquad.github.io/KorQuad%201.0/. Quotation
marks and brackets become blanks, other ASCII punctuation goes, letters are lower-cased and white
space is squeezed. Exact match compares what is left; F1 counts characters without the blanks.
"""

from __future__ import annotations

import string

from lightwork.tasks.extractive.scoring.rules import Compared

_BLANK = "'\"《》<>〈〉()‘’"
_PLAIN = str.maketrans(
    {**dict.fromkeys(string.punctuation, None), **dict.fromkeys(_BLANK, " ")},
)


def compared(text: str) -> Compared:
    """The words that are left, and their characters."""
    words = text.lower().translate(_PLAIN).split()
    return Compared(" ".join(words), "".join(words))
