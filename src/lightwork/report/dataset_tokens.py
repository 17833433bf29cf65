"""How long the texts of a set of questions are, in characters or in tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.report.dataset import is_learned
from lightwork.tasks.extractive.encoding import NOTHING, encode_each, joined, template_of
from lightwork.tasks.extractive.examples import Examples, Tally
from lightwork.tasks.extractive.labels import answer_tokens
from lightwork.tasks.extractive.pieces import pieces_of, texts_of

Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Spread:
    """Half of the lengths are at most ``p50``, 90 % at most ``p90``; all are lengths that occur."""

    p50: int
    p90: int
    max: int


@dataclass(frozen=True)
class Lengths:
    """In characters (code points) or in tokens."""

    question: Spread
    context: Spread
    """Of distinct contexts."""
    answer: Spread | None
    """Of the answers that are learned; None where there are none."""
    whole: Spread
    """A question with its context, and in tokens with the special tokens of a window."""


@dataclass(frozen=True)
class Tokenised:
    """Lengths in tokens, and where answers stand; one row per question."""

    ids: tuple[str, ...]
    question: Ints
    context: Ints
    distinct_context: Ints
    """One row per distinct context."""
    answer: Ints
    """``[questions, 2]``: first and last context token of what is learned, or -1, -1."""
    usable: NDArray[np.bool_]
    learned: NDArray[np.bool_]
    """Whether an answer is learned."""
    no_answer: bool
    """Whether "no answer" is learned."""
    special_tokens: int

    def lengths(self) -> Lengths:
        """How they spread."""
        answers = self.answer[self.answer[:, 0] >= 0]
        return Lengths(
            question=_spread(self.question),
            context=_spread(self.distinct_context),
            answer=_spread(answers[:, 1] - answers[:, 0] + 1) if len(answers) else None,
            whole=_spread(self.question + self.context + self.special_tokens),
        )


def character_lengths(examples: Examples) -> Lengths:
    """The lengths in characters, where no tokenizer is at hand."""
    answers = [len(item.learned.text) for item in examples if item.learned and is_learned(item)]
    questions = np.array([len(item.question.strip()) for item in examples], dtype=np.int64)
    contexts = np.array([len(item.context) for item in examples], dtype=np.int64)
    distinct = [len(context) for context in {item.context for item in examples}]
    return Lengths(
        question=_spread(questions),
        context=_spread(np.array(distinct, dtype=np.int64)),
        answer=_spread(np.array(answers, dtype=np.int64)) if answers else None,
        whole=_spread(questions + contexts),
    )


def tokenised(examples: Examples, tokenizer: Any, progress: Progress | None = None) -> Tokenised:
    """Tokenise contexts and questions, in pieces; ``progress(done, total)`` counts both.

    Raises ``SettingsError`` for a tokenizer that knows no offsets.
    """
    special = template_of(tokenizer).special_tokens
    pieces = list(pieces_of(examples.items))
    total = len(examples) + sum(len(piece.texts) for piece in pieces)
    distinct: list[Ints] = []
    columns: list[tuple[Ints, Ints, Ints]] = []

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, total)

    with closing(encode_each(tokenizer, texts_of(pieces), tell)) as encoded:
        contexts = NOTHING
        for piece in pieces:
            contexts = joined([contexts.only(piece.carried), next(encoded)])
            questions = next(encoded)
            distinct.append(contexts.lengths[len(contexts.lengths) - piece.new :])
            used = np.flatnonzero([is_learned(item) for item in piece.items])
            answer = answer_tokens(piece.items, used, piece.context, contexts, Tally())
            columns.append((questions.lengths, contexts.lengths[piece.context], answer))
    question, context, answer = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Tokenised(
        ids=tuple(item.id for item in examples),
        question=question,
        context=context,
        distinct_context=np.concatenate(distinct),
        answer=answer,
        usable=np.array([not item.unusable for item in examples], dtype=bool),
        learned=np.array([is_learned(item) for item in examples], dtype=bool),
        no_answer=examples.no_answer,
        special_tokens=special,
    )


def _spread(lengths: Ints) -> Spread:
    levels = np.quantile(lengths, [0.5, 0.9, 1.0], method="inverted_cdf")
    return Spread(*(int(level) for level in levels))
