"""Chinese answers, as CMRC 2018 compares them (Cui et al., 2019).

Source: ``cmrc2018_evaluate.py``, version 6, https://github.com/ymcui/cmrc2018. Both texts are
lower-cased, stripped and lose ``SIGNS``. Exact match compares what is left, blanks included. For
F1 every character from U+4E00 to U+9FA5 is a token, and what stands between them is cut into
words; the tokens that count are those of the longest run that both texts have.

The same rule serves traditional Chinese: DRCD (Shao et al., 2018) came without a script, and its
published baselines were scored with this one (``baseline/README.md`` of the same repository).

The script cuts what is not Chinese with ``nltk.word_tokenize``: words as in the Penn Treebank.
``words`` does the same with the signs that answers hold, as NLTK 3.10 does. It does not know
English words that are cut inside (cannot, gonna), nor does it look for sentences in an answer, at
whose ends NLTK cuts the full stop off.
"""

from __future__ import annotations

import re

from lightwork.tasks.extractive.scoring.rules import Compared

SIGNS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
"""The single characters in the list of the script. It also lists ``……``, two characters, which no
single character equals: an ellipsis is never dropped."""

_DROPPED = str.maketrans("", "", "".join(SIGNS))
_CHINESE_OR_NOT = re.compile("[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")

_WORDS_APART = [
    (re.compile(r"""(?:^|(?<=[ (\[{<]))\""""), " `` "),
    (re.compile("\"|''"), " '' "),
    (re.compile(r"(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)"), "' "),
    # The last full stop of all; elsewhere it belongs to its word.
    (re.compile(r"(?<=[^.])\.(?=[\])}>'»\s]*$)"), " . "),
    (re.compile(r"\.{2,}|,(?!\d)|[;@#$%&?!()\[\]{}<>«»‘„\u2012-\u2015]"), r" \g<0> "),
    (re.compile(r"(?<=[^' ])(?:n't|'(?:s|m|d|ll|re|ve)?)(?= |$)"), r" \g<0> "),
]
"""Where words and signs are cut apart, one rule after the other."""


def words(text: str) -> list[str]:
    """Words and signs of a piece without Chinese characters, without ``SIGNS``, in lower case."""
    for cut, apart in _WORDS_APART:
        text = cut.sub(apart, text)
    return text.split()


def compared(text: str) -> Compared:
    """The text without signs, and its Chinese characters and other words."""
    plain = text.lower().strip().translate(_DROPPED)
    tokens: list[str] = []
    for piece in _CHINESE_OR_NOT.findall(plain):
        tokens.extend(piece if "\u4e00" <= piece[0] <= "\u9fa5" else words(piece))
    return Compared(plain, tokens)
