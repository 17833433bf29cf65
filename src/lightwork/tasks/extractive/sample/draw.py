"""Choices that come out the same on every platform and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Seeded choices.

    ``random.Random.random`` is the one method whose sequence Python promises to keep for a seed
    (library reference, "Notes on Reproducibility"), so everything here is made from it.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, count: int) -> int:
        """A whole number from 0 to ``count - 1``."""
        return int(self._random.random() * count)

    def one(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different places of ``items``, in drawn order (Fisher and Yates' shuffle)."""
        pool = list(items)
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]
