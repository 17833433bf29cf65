"""Which tokens of its context an answer is, for many answers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lightwork.tasks.extractive.encoding import Encoded
from lightwork.tasks.extractive.examples import Example, Tally

Ints = NDArray[np.int64]


def answer_tokens(
    items: Sequence[Example], used: Ints, example_context: Ints, contexts: Encoded, tally: Tally
) -> Ints:
    """``[examples, 2]``: first and last context token of the answer that is learned, or -1, -1.

    The tokens of an answer are those that share a character with it. Where they show another text
    than the answer, ``off_border_answers`` is noted. Of the ``used`` examples only; the context of
    example ``i`` is ``example_context[i]`` of ``contexts``.
    """
    learned = [items[index].learned for index in used.tolist()]
    golds = [gold for gold in learned if gold is not None]
    placed = used[np.array([gold is not None for gold in learned], dtype=bool)]
    begin = np.array([gold.start for gold in golds], dtype=np.int64)
    end = begin + np.array([len(gold.text) for gold in golds], dtype=np.int64)
    context = example_context[placed]
    first, last = _covering(contexts, context, begin, end)
    found = np.flatnonzero(first <= last)
    first, last = first[found], last[found]
    shown_begin, shown_end = contexts.offsets[first, 0], contexts.offsets[last, 1]
    other = (shown_begin != begin[found]) | (shown_end != end[found])
    for place in np.flatnonzero(other).tolist():
        item, gold = items[placed[found[place]]], golds[found[place]]
        if item.context[shown_begin[place] : shown_end[place]] != gold.text:
            tally.note("off_border_answers", item.id)
    labels = np.full((len(items), 2), -1, dtype=np.int64)
    labels[placed[found]] = np.stack([first, last], axis=1) - contexts.starts[context[found], None]
    return labels


def _covering(contexts: Encoded, context: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """First and last token, counted over all ``contexts``, with a character of ``begin : end``.

    The last is before the first where there is none. Spans never fall within a context, so with
    the contexts end to end both are found by halving.
    """
    wide = np.zeros(len(contexts.lengths), dtype=np.int64)
    np.maximum.at(wide, context, end)
    filled = np.flatnonzero(contexts.lengths)
    wide[filled] = np.maximum(wide[filled], contexts.offsets[contexts.starts[filled + 1] - 1, 1])
    base = np.cumsum(wide + 1) - (wide + 1)
    spans = contexts.offsets + np.repeat(base, contexts.lengths)[:, None]
    shown = np.flatnonzero(spans[:, 0] < spans[:, 1])
    first = np.searchsorted(spans[shown, 1], base[context] + begin, side="right")
    last = np.searchsorted(spans[shown, 0], base[context] + end, side="left") - 1
    # A place more on each side, for answers before the first token and after the last.
    padded = np.concatenate([[-1], shown, [len(spans)]])
    return padded[first + 1], padded[last + 1]
