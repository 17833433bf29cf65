"""Invented names, dealt to training and dev so that no name word stands in both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightwork.tasks.extractive.sample.draw import Draw

DEV_SHARE = 0.2


@dataclass(frozen=True)
class Word:
    """A name word and the pieces that tell it from others (its ending tells what it names)."""

    text: str
    pieces: frozenset[str]


Lexicon = dict[str, list[Word]]
"""Kind of name (``town``, ``river``, ...) -> its words."""


def syllables(heads: Iterable[str], tails: Iterable[str]) -> list[Word]:
    """Every head with every tail."""
    ends = list(tails)
    return [Word(head + tail, frozenset({head})) for head in heads for tail in ends]


def characters(letters: str, tails: str = "") -> list[Word]:
    """Every pair of two different ``letters``, followed by every one of ``tails``."""
    pairs = [a + b for a in letters for b in letters if a != b]
    return [Word(pair + tail, frozenset(pair)) for pair in pairs for tail in tails or ("",)]


def deal(draw: Draw, lexicon: Lexicon) -> tuple[Lexicon, Lexicon]:
    """All words of ``lexicon``, dealt to (training, dev); a word of two kinds stays one kind's."""
    train: Lexicon = {}
    dev: Lexicon = {}
    taken: set[str] = set()
    for kind, words in lexicon.items():
        fresh = [word for word in words if word.text not in taken]
        taken.update(word.text for word in fresh)
        mixed = draw.some(fresh, len(fresh))
        edge = int(len(mixed) * DEV_SHARE)
        dev[kind], train[kind] = mixed[:edge], mixed[edge:]
    return train, dev


class Register:
    """Hands out the names of one paragraph; no two of them share a piece."""

    def __init__(self, draw: Draw, lexicon: Lexicon) -> None:
        self._draw, self._lexicon = draw, lexicon
        self._used: frozenset[str] = frozenset()

    def one(self, kind: str) -> str:
        """A name word of this kind."""
        while True:
            word = self._draw.one(self._lexicon[kind])
            if not word.pieces & self._used:
                self._used |= word.pieces
                return word.text

    def some(self, kind: str, count: int) -> list[str]:
        """``count`` name words of this kind."""
        return [self.one(kind) for _ in range(count)]
