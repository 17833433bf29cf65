"""What is in a set of questions: how long its texts are in tokens, and how many windows they give.

Of large sets a sample is measured. It always holds the longest context, the longest question and
the longest answer, so that only the shares in between are estimates.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import DataError
from lightwork.tasks.extractive.encoding import Encoded, encode, template_of
from lightwork.tasks.extractive.examples import Example, Examples
from lightwork.tasks.extractive.reading import texts
from lightwork.tasks.extractive.tokenizer import load_tokenizer, train_tokenizer
from lightwork.tasks.extractive.windows import WindowOptions, build_windows

SAMPLE_QUESTIONS = 1000
SAMPLE_CHARACTERS = 1_500_000
STAND_IN_PIECES = 16_000
"""Word pieces of the tokenizer that stands in for one that is not on this machine: with these its
counts for English are within a tenth of BERT's."""

PIECES_BY_CHARACTERS = ((700_000, 8000), (300_000, 4000), (100_000, 2000))
COVERED_CHARACTERS = 0.999
MOST_PIECES = 24_000


@dataclass(frozen=True)
class Spread:
    """Lengths of many texts, in tokens."""

    median: int
    p90: int
    p99: int
    longest: int


@dataclass(frozen=True)
class WindowCount:
    """What cutting the sample gave."""

    per_question: float
    """Windows to train on for each question."""
    mean_tokens: float
    cut_answers: float
    """Part of the questions whose answer is whole in no window."""


@dataclass(frozen=True)
class Survey:
    """A sample of questions with its tokenizer; lengths are of the examples in their order."""

    sample: Examples
    tokenizer: Any
    exact: bool
    """Whether the tokenizer is that of the model, and no stand-in."""
    pieces: int = 0
    """Word pieces at most of a stand-in."""

    @cached_property
    def _encoded(self) -> tuple[Encoded, Encoded, Encoded]:
        """Questions, distinct contexts, and first gold answers."""
        items = self.sample.items
        questions = [item.question.strip() for item in items]
        contexts = list(dict.fromkeys(item.context for item in items))
        answers = [item.answers[0].text for item in items if item.answers]
        first, second, third = (
            encode(self.tokenizer, some) for some in (questions, contexts, answers)
        )
        return first, second, third

    @cached_property
    def _lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of every question, of its context, and of every first gold answer."""
        questions, contexts, answers = self._encoded
        numbers: dict[str, int] = {}
        of = [numbers.setdefault(item.context, len(numbers)) for item in self.sample]
        return questions.lengths, contexts.lengths[of], answers.lengths

    @cached_property
    def unknown(self) -> float:
        """Part of the tokens that the tokenizer has no piece for."""
        ids = np.concatenate([encoded.ids for encoded in self._encoded[:2]])
        return float((ids == self.tokenizer.unk_token_id).mean()) if len(ids) else 0.0

    @cached_property
    def special_tokens(self) -> int:
        """Tokens of a window that are neither question nor context."""
        return template_of(self.tokenizer).special_tokens

    @cached_property
    def whole(self) -> Spread:
        """Question and context together, with the special tokens."""
        return _spread(self._lengths[0] + self._lengths[1] + self.special_tokens)

    @cached_property
    def questions(self) -> Spread:
        """Questions alone."""
        return _spread(self._lengths[0])

    @cached_property
    def answers(self) -> Spread | None:
        """The first gold answers; None where there are none."""
        return _spread(self._lengths[2]) if len(self._lengths[2]) else None

    def fitting(self, max_length: int) -> float:
        """Part of the questions that are one window with their context."""
        lengths = self._lengths[0] + self._lengths[1] + self.special_tokens
        return float((lengths <= max_length).mean())

    def cut_questions(self, max_question_length: int) -> float:
        """Part of the questions that are longer."""
        return float((self._lengths[0] > max_question_length).mean())

    def count_windows(self, options: WindowOptions) -> WindowCount:
        """Cut the sample as for training."""
        windows = build_windows(self.sample, self.tokenizer, options, training=True)
        tokens = windows.columns["tokens"]
        assert isinstance(tokens, np.ndarray)
        return WindowCount(
            per_question=len(tokens) / len(self.sample),
            mean_tokens=float(tokens.mean()),
            cut_answers=windows.summary.get("cut_answers", 0) / len(self.sample),
        )


def _spread(lengths: NDArray[np.int64]) -> Spread:
    # Real lengths, so that "90 % have at most so many" is true of the sample.
    levels = np.quantile(lengths, [0.5, 0.9, 0.99, 1.0], method="inverted_cdf")
    return Spread(*(int(level) for level in levels))


def survey(sample: Examples, tokenizer: Any | None, pieces: int = STAND_IN_PIECES) -> Survey:
    """``sample`` with ``tokenizer``, or with a stand-in of at most ``pieces`` word pieces that is
    trained on it.
    """
    if tokenizer is not None:
        return Survey(sample, tokenizer, exact=True)
    with TemporaryDirectory(prefix="lightwork-") as folder:
        train_tokenizer(texts(sample), pieces, Path(folder))
        stand_in = load_tokenizer(folder)
    return Survey(sample, stand_in, exact=False, pieces=pieces)


def scratch_pieces(sample: Examples) -> int:
    """Word pieces for a tokenizer of its own: few for little text, more for many signs.

    A third of a vocabulary may be single characters; rarer ones would be unknown.
    """
    counts = Counter(character for text in texts(sample) for character in text)
    total = counts.total()
    signs, covered = 0, 0
    for _, count in counts.most_common():
        if covered >= COVERED_CHARACTERS * total:
            break
        signs, covered = signs + 1, covered + count
    by_text = next((pieces for least, pieces in PIECES_BY_CHARACTERS if total >= least), 1000)
    return min(max(by_text, math.ceil(3 * signs / 1000) * 1000), MOST_PIECES)


def draw_sample(examples: Examples) -> Examples:
    """At most about ``SAMPLE_QUESTIONS`` usable questions, the same ones at every call.

    Their contexts have at most about ``SAMPLE_CHARACTERS`` characters together. "No answer" is in
    the sample if it is in ``examples``, since that decides which windows are trained on. Raises
    DataError when no question is usable.
    """
    usable = [item for item in examples if not item.unusable]
    if not usable:
        raise DataError(
            f"none of the {len(examples):,} questions can be trained on: their question, context "
            "or answer is blank"
        )
    must = _extremes(usable)
    drawn = random.Random(0).sample(range(len(usable)), min(len(usable), SAMPLE_QUESTIONS))
    kept: set[int] = set()
    contexts: set[str] = set()
    characters = 0
    for index in [*must, *drawn]:
        context = usable[index].context
        if context not in contexts:
            if index not in must and characters + len(context) > SAMPLE_CHARACTERS:
                continue
            contexts.add(context)
            characters += len(context)
        kept.add(index)
    return Examples([usable[index] for index in sorted(kept)], {}, {})


def _extremes(usable: Sequence[Example]) -> list[int]:
    """The longest context, question and answer, by characters, and an impossible question."""
    numbers = range(len(usable))
    impossible = next((index for index in numbers if usable[index].impossible), 0)

    def answer(index: int) -> int:
        return len(usable[index].answers[0].text) if usable[index].answers else 0

    return [
        max(numbers, key=lambda index: len(usable[index].context)),
        impossible,
        max(numbers, key=lambda index: len(usable[index].question)),
        max(numbers, key=answer),
    ]
