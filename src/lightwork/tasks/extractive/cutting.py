"""Lengths and answers in tokens -> windows: where each begins, what it holds, what it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """One row per window; ``first`` and the labels count the tokens of its context."""

    example: Ints
    context: Ints
    first: Ints
    length: Ints
    question_length: Ints
    label_first: Ints
    label_last: Ints
    """The answer's first and last context token; -1 where this window is labelled no answer."""

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which windows hold the whole answer."""
        return self.label_first >= 0

    def only(self, keep: NDArray[np.bool_]) -> Cut:
        """The windows to ``keep``."""
        return Cut(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


def cut_contexts(
    used: Ints,
    context: Ints,
    context_tokens: Ints,
    question_tokens: Ints,
    *,
    space: int,
    stride: int,
) -> Cut:
    """The windows of the ``used`` examples, not yet labelled.

    ``context`` and ``question_tokens`` have an entry for each example. ``space`` tokens are for
    the question and a piece of the context; two neighbouring pieces share ``stride`` tokens.
    """
    tokens = context_tokens[context[used]]
    room = space - question_tokens[used]
    step = room - stride
    count = 1 + -(-np.maximum(tokens - room, 0) // step)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    first = number * np.repeat(step, count)
    example = np.repeat(used, count)
    unknown = np.full(len(first), -1, dtype=np.int64)
    return Cut(
        example=example,
        context=context[example],
        first=first,
        length=np.minimum(np.repeat(tokens, count) - first, np.repeat(room, count)),
        question_length=question_tokens[example],
        label_first=unknown,
        label_last=unknown,
    )


def with_labels(cut: Cut, answers: Ints) -> Cut:
    """``cut`` with ``answers``, ``[examples, 2]``, in the windows that hold them whole."""
    first, last = answers[cut.example].T
    inside = (first >= cut.first) & (last < cut.first + cut.length)
    return replace(
        cut,
        label_first=np.where(inside, first, -1),
        label_last=np.where(inside, last, -1),
    )
