"""Examples -> windows: question and context as token ids, cut to a length, with labels.

A context longer than its room is cut into windows that overlap by ``stride`` tokens (the meaning
the word has in Hugging Face tokenizers): with ``n`` context tokens, ``room`` places and
``step = room - stride``, window ``k`` begins at context token ``k * step`` and there are
``1 + ceil((n - room) / step)`` of them, so every token is in at least one window and every answer
of at most ``stride`` tokens is whole in at least one.

The training rule, in one place:

* The first gold answer with a place is learned. Its label covers every token that shares a
  character with it.
* When no usable question of the files is impossible, windows without the whole answer are left out
  (``windows_without_answer``). When some are, such windows stay and are labelled "no answer": with
  the place of the classification token.
* An answer that is whole in no window is counted with its id (``cut_answers``): it is too long,
  or the tokenizer drops its characters.
* Unusable examples (blank context, question or answer) give no window.

Evaluation keeps every window of every example whose context is not blank.

The examples are worked on in pieces, so that the memory this takes does not grow with their
number, but for a few bytes each. A context is kept once. It is also tokenised once when its
questions are neighbours; otherwise again whenever it comes back after a piece without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import DataError, SettingsError
from lightwork.tasks.extractive.columns import (
    Column,
    example_columns,
    joined_columns,
    window_columns,
)
from lightwork.tasks.extractive.cutting import Cut, cut_contexts, with_labels
from lightwork.tasks.extractive.encoding import (
    NOTHING,
    Encoded,
    Template,
    encode_each,
    joined,
    template_of,
)
from lightwork.tasks.extractive.examples import Example, Examples, Tally
from lightwork.tasks.extractive.labels import answer_tokens
from lightwork.tasks.extractive.pieces import Piece, pieces_of, texts_of

Progress = Callable[[int, int], None]
Value = TypeVar("Value")

Ints = NDArray[np.int64]

NOTED = (
    "unusable_examples",
    "cut_questions",
    "off_border_answers",
    "cut_answers",
    "no_answer_windows",
    "windows_without_answer",
)
"""What is counted beside examples and windows, in the order it is told."""


@dataclass(frozen=True)
class WindowOptions:
    """How contexts are cut, in tokens."""

    max_length: int
    """Longest window, special tokens included."""
    stride: int
    """Context tokens that two neighbouring windows share."""
    max_question_length: int
    """Longer questions keep their first tokens."""


@dataclass(frozen=True)
class Facts:
    """What happened while cutting."""

    summary: dict[str, int]
    listed: dict[str, list[str]]
    """The first ids behind a count of the summary."""


@dataclass(frozen=True)
class Windows(Facts):
    """The columns of a store, and what happened while cutting."""

    columns: dict[str, Column]
    """A plain column, or ``(values, row_starts)`` of a ragged one; ``row_starts`` has one more."""


@dataclass(frozen=True)
class _Rules:
    options: WindowOptions
    template: Template
    training: bool
    no_answer: bool
    type_ids: bool


def check_options(tokenizer: Any, options: WindowOptions) -> Template:
    """Refuse sizes that leave context tokens without a window, before anything is read."""
    template = template_of(tokenizer)
    room = options.max_length - template.special_tokens - options.max_question_length
    if min(options.stride, options.max_question_length) < 0 or room <= max(options.stride, 0):
        raise SettingsError(
            f"data.max_length {options.max_length}, less {template.special_tokens} special tokens "
            f"and data.max_question_length {options.max_question_length}, leaves {room} tokens "
            f"for the context; that must be more than data.stride {options.stride} and more than "
            "0. Raise data.max_length, or lower data.stride or data.max_question_length"
        )
    return template


def build_windows(
    examples: Examples,
    tokenizer: Any,
    options: WindowOptions,
    *,
    training: bool,
    progress: Progress | None = None,
) -> Windows:
    """The windows of ``examples`` in memory, as :func:`write_windows` makes them."""
    pieces: list[dict[str, Column]] = []
    facts = write_windows(
        examples, tokenizer, options, pieces.append, training=training, progress=progress
    )
    return Windows(facts.summary, facts.listed, joined_columns(pieces))


def write_windows(
    examples: Examples,
    tokenizer: Any,
    options: WindowOptions,
    append: Callable[[dict[str, Column]], None],
    *,
    training: bool,
    progress: Progress | None = None,
) -> Facts:
    """Tokenise and cut ``examples``; ``append`` gets the columns piece by piece, in order.

    ``progress(done, total)`` counts contexts and questions. Raises ``SettingsError`` when the
    sizes leave no room, and ``DataError`` when training data gives no window at all.
    """
    rules = _Rules(
        options,
        check_options(tokenizer, options),
        training,
        examples.no_answer,
        "token_type_ids" in tokenizer.model_input_names,
    )
    pieces = list(pieces_of(examples.items))
    total = len(examples) + sum(len(piece.texts) for piece in pieces)
    tally, windows = Tally(), 0

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, total)

    with closing(encode_each(tokenizer, texts_of(pieces), tell)) as encoded:
        contexts = NOTHING
        for piece in pieces:
            contexts = joined([contexts.only(piece.carried), next(encoded)])
            columns = _columns(piece, contexts, next(encoded), rules, tally)
            windows += len(columns["tokens"])
            append(columns)
    if training and not windows:
        raise _without_windows(examples, tally)
    summary = {"examples": len(examples), "windows": windows, **_noted(tally.counts)}
    return Facts(summary, _noted(tally.listed))


def _without_windows(examples: Examples, tally: Tally) -> DataError:
    return DataError(
        f"none of the {len(examples):,} examples gives a window to train on: "
        f"{_noted(tally.counts)}; is data.max_length too short for the answers?"
    )


def _noted(kinds: Mapping[str, Value]) -> dict[str, Value]:
    """In the order it is told."""
    return {kind: kinds[kind] for kind in NOTED if kind in kinds}


def _columns(
    piece: Piece, contexts: Encoded, questions: Encoded, rules: _Rules, tally: Tally
) -> dict[str, Column]:
    """All columns of a piece; examples and contexts are numbered among all."""
    options, items = rules.options, piece.items
    used = _used(items, rules.training, tally)
    for index in used[questions.lengths[used] > options.max_question_length].tolist():
        tally.note("cut_questions", items[index].id)
    cut = cut_contexts(
        used,
        piece.context,
        contexts.lengths,
        np.minimum(questions.lengths, options.max_question_length),
        space=options.max_length - rules.template.special_tokens,
        stride=options.stride,
    )
    if rules.training:
        answers = answer_tokens(items, used, piece.context, contexts, tally)
        cut = _trained(with_labels(cut, answers), items, used, rules.no_answer, tally)
    columns = window_columns(cut, contexts, questions, rules.template)
    columns["example"] = (cut.example + piece.first).astype(np.int32)
    if not rules.type_ids:
        del columns["type_ids"]
    new = piece.texts[len(piece.texts) - piece.new :]
    columns.update(example_columns(items, new, piece.numbers[piece.context]))
    return columns


def _used(items: Sequence[Example], training: bool, tally: Tally) -> Ints:
    """Which examples give windows."""
    used = []
    for index, item in enumerate(items):
        if item.unusable and (training or item.unusable == "blank_contexts"):
            tally.note("unusable_examples", item.id)
        else:
            used.append(index)
    return np.array(used, dtype=np.int64)


def _trained(cut: Cut, items: Sequence[Example], used: Ints, no_answer: bool, tally: Tally) -> Cut:
    """The windows that training keeps, by the rule on top of this module."""
    answered = np.zeros(len(items), dtype=bool)
    answered[cut.example[cut.labelled]] = True
    for index in used[~answered[used]].tolist():
        if not items[index].impossible:
            tally.note("cut_answers", items[index].id)
    kind = "no_answer_windows" if no_answer else "windows_without_answer"
    tally.counts[kind] += int((~cut.labelled).sum())
    return cut if no_answer else cut.only(cut.labelled)
