"""Examples in pieces of neighbours, so that no work needs memory for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightwork.tasks.extractive.encoding import Texts, runs
from lightwork.tasks.extractive.examples import Example

Ints = NDArray[np.int64]

PIECE_EXAMPLES = 4096
"""At most so many examples are worked on at a time."""

PIECE_CHARACTERS = 1 << 19
"""And at most so many characters of their contexts, unless one example has more.

A context counts once for each of its questions, as it does in the windows. Columns of this size
stay in the processor's cache until they are written.
"""


@dataclass(frozen=True)
class Piece:
    """Neighbouring examples and their distinct contexts."""

    first: int
    """The number of the first of its examples among all."""
    items: Sequence[Example]
    carried: Ints
    """Contexts that the piece before has as well, by their places there. They come first."""
    texts: Sequence[str]
    """The other contexts; those that no earlier piece had are the last ``new`` ones."""
    new: int
    context: Ints
    """The place of each example's context in this piece."""
    numbers: Ints
    """The number of each context among all contexts."""


def pieces_of(items: Sequence[Example]) -> Iterator[Piece]:
    """At least one piece, which may be empty."""
    numbers: dict[str, int] = {}
    context = np.array(
        [numbers.setdefault(item.context, len(numbers)) for item in items], dtype=np.int64
    )
    texts, known = list(numbers), 0
    before: dict[int, int] = {}
    for first, last in runs(
        (len(item.context) for item in items), PIECE_EXAMPLES, PIECE_CHARACTERS
    ):
        own, place = np.unique(context[first:last], return_inverse=True)
        carried = np.array([number in before for number in own.tolist()], dtype=bool)
        # Numbers are given in order, so the contexts that are new come last.
        order = np.concatenate([own[carried], own[~carried]])
        yield Piece(
            first=first,
            items=items[first:last],
            carried=np.array([before[number] for number in own[carried].tolist()], dtype=np.int64),
            texts=[texts[number] for number in own[~carried].tolist()],
            new=int((own >= known).sum()),
            context=np.argsort(order)[place],
            numbers=order,
        )
        known = max(known, int(own[-1]) + 1) if len(own) else known
        before = {number: place for place, number in enumerate(order.tolist())}


def texts_of(pieces: Sequence[Piece]) -> Iterator[Texts]:
    """Of each piece the contexts that are not carried, then the questions without blanks around."""
    for piece in pieces:
        yield Texts(piece.texts)
        yield Texts([item.question.strip() for item in piece.items], offsets=False)
