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
  (``left_out_windows``). When some are, such windows stay and are labelled "no answer": with the
  place of the classification token.
* An answer that is whole in no window is counted with its id (``cut_answers``): it is too long,
  or the tokenizer drops its characters.
* Unusable examples (blank context, question or answer) give no window.

Evaluation keeps every window of every example whose context is not blank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import DataError, SettingsError
from lightwork.tasks.extractive.columns import Column, example_columns, gather
from lightwork.tasks.extractive.encoding import Encoded, Template, encode, template_of
from lightwork.tasks.extractive.examples import Example, Examples, Tally

Progress = Callable[[int, int], None]

Ints = NDArray[np.int64]


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
class Windows:
    """The columns of a store, and what happened while cutting."""

    columns: dict[str, Column]
    """A plain column, or ``(values, row_starts)`` of a ragged one; ``row_starts`` has one more."""
    summary: dict[str, int]
    listed: dict[str, list[str]]
    """The first ids behind a count of the summary."""


@dataclass(frozen=True)
class _Cut:
    """One row per window; positions ``first`` count the context's tokens."""

    example: Ints
    context: Ints
    first: Ints
    length: Ints
    question_length: Ints
    label_first: Ints
    label_last: Ints
    """The answer's first and last context token; -1 where this window is labelled no answer."""

    def only(self, keep: NDArray[np.bool_]) -> _Cut:
        return _Cut(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


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
    """Tokenise and cut all ``examples``; ``progress(done, total)`` counts contexts and questions.

    Raises ``SettingsError`` when the sizes leave no room, and ``DataError`` when training data
    gives no window at all.
    """
    template = check_options(tokenizer, options)
    items, tally = examples.items, Tally()
    numbers: dict[str, int] = {}
    example_context = np.array(
        [numbers.setdefault(item.context, len(numbers)) for item in items], dtype=np.int64
    )
    contexts, questions = _encoded(tokenizer, list(numbers), items, progress)
    used = _used(items, training, tally)
    for index in used[questions.lengths[used] > options.max_question_length]:
        tally.note("cut_questions", items[index].id)
    question_length = np.minimum(questions.lengths, options.max_question_length)
    room = options.max_length - template.special_tokens - question_length[used]
    cut = _cut(used, example_context[used], contexts.lengths, room, options.stride)
    labels = _labels(items, example_context, contexts, used if training else used[:0], tally)
    cut = _labelled(cut, question_length, labels)
    if training:
        cut = _trained(cut, examples, used, tally)
    columns = _window_columns(cut, contexts, questions, template)
    if "token_type_ids" not in tokenizer.model_input_names:
        del columns["type_ids"]
    columns.update(example_columns(items, list(numbers), example_context))
    summary = {"examples": len(items), "windows": len(cut.example), **tally.counts}
    return Windows(columns, summary, tally.listed)


def _encoded(
    tokenizer: Any, contexts: list[str], items: list[Example], progress: Progress | None
) -> tuple[Encoded, Encoded]:
    """Contexts, then questions without the blanks around them."""
    total = len(contexts) + len(items)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, total)

    encoded = encode(tokenizer, contexts, tell)
    questions = [item.question.strip() for item in items]
    return encoded, encode(tokenizer, questions, lambda done: tell(len(contexts) + done))


def _used(items: list[Example], training: bool, tally: Tally) -> Ints:
    """Numbers of the examples that give windows."""
    used = []
    for index, item in enumerate(items):
        if item.unusable and (training or item.unusable == "blank_contexts"):
            tally.note("unusable_examples", item.id)
        else:
            used.append(index)
    return np.array(used, dtype=np.int64)


def _labels(
    items: list[Example], example_context: Ints, contexts: Encoded, used: Ints, tally: Tally
) -> Ints:
    """``[examples, 2]``: first and last context token of the first gold answer, or -1, -1."""
    labels = np.full((len(items), 2), -1, dtype=np.int64)
    for index in used:
        item = items[index]
        answer = item.learned
        if answer is None or answer.start is None:
            continue
        number = example_context[index]
        spans = contexts.offsets[contexts.starts[number] : contexts.starts[number + 1]]
        end = answer.start + len(answer.text)
        shared = (spans[:, 0] < end) & (spans[:, 1] > answer.start)
        tokens = np.flatnonzero(shared & (spans[:, 0] < spans[:, 1]))
        if not len(tokens):
            continue
        labels[index] = tokens[0], tokens[-1]
        if item.context[spans[tokens[0], 0] : spans[tokens[-1], 1]] != answer.text:
            tally.note("off_border_answers", item.id)
    return labels


def _cut(used: Ints, context: Ints, context_tokens: Ints, room: Ints, stride: int) -> _Cut:
    """The windows of the ``used`` examples, not yet labelled."""
    tokens = context_tokens[context]
    step = room - stride
    count = 1 + -(-np.maximum(tokens - room, 0) // step)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    first = number * np.repeat(step, count)
    length = np.minimum(np.repeat(tokens, count) - first, np.repeat(room, count))
    unknown = np.full(len(first), -1, dtype=np.int64)
    return _Cut(
        example=np.repeat(used, count),
        context=np.repeat(context, count),
        first=first,
        length=length,
        question_length=unknown,
        label_first=unknown,
        label_last=unknown,
    )


def _labelled(cut: _Cut, question_length: Ints, labels: Ints) -> _Cut:
    """``cut`` with the length of its questions, and labels where the whole answer is inside."""
    first, last = labels[cut.example].T
    inside = (first >= cut.first) & (last < cut.first + cut.length)
    return replace(
        cut,
        question_length=question_length[cut.example],
        label_first=np.where(inside, first, -1),
        label_last=np.where(inside, last, -1),
    )


def _trained(cut: _Cut, examples: Examples, used: Ints, tally: Tally) -> _Cut:
    """The windows that training keeps, by the rule on top of this module."""
    items = examples.items
    answered = np.zeros(len(items), dtype=bool)
    answered[cut.example[cut.label_first >= 0]] = True
    for index in used:
        if not answered[index] and not items[index].impossible:
            tally.note("cut_answers", items[index].id)
    if examples.no_answer:
        tally.counts["no_answer_windows"] = int((cut.label_first < 0).sum())
    else:
        tally.counts["left_out_windows"] = int((cut.label_first < 0).sum())
        cut = cut.only(cut.label_first >= 0)
    if not len(cut.example):
        raise DataError(
            f"none of the {len(items):,} examples gives a window to train on: "
            f"{dict(tally.counts)}; is data.max_length too short for the answers?"
        )
    return cut


def _window_columns(
    cut: _Cut, contexts: Encoded, questions: Encoded, template: Template
) -> dict[str, Column]:
    before, between, after = (len(piece) for piece in template.pieces)
    context_first = before + cut.question_length + between
    cls = template.cls_positions(cut.question_length, cut.length)
    shift = context_first - cut.first
    start = np.where(cut.label_first >= 0, cut.label_first + shift, cls)
    end = np.where(cut.label_first >= 0, cut.label_last + shift, cls)
    tokens = context_first + cut.length + after
    ids, types = _pools(contexts, questions, template)
    question_at = template.special_tokens + questions.starts[cut.example]
    context_at = contexts.starts[cut.context] + cut.first
    fixed = np.zeros_like(tokens)
    # Every window is five runs of one pool of ids: before, question, between, context, after.
    runs_at = (
        fixed,
        question_at,
        fixed + before,
        template.special_tokens + len(questions.ids) + context_at,
        fixed + before + between,
    )
    runs = (fixed + before, cut.question_length, fixed + between, cut.length, fixed + after)
    at, lengths = np.stack(runs_at, axis=1), np.stack(runs, axis=1)
    flat_offsets = contexts.offsets.reshape(-1)
    offset_at, offset_lengths = 2 * context_at[:, None], 2 * cut.length[:, None]
    return {
        "input_ids": gather(ids, at, lengths),
        "type_ids": gather(types, at, lengths),
        "offsets": gather(flat_offsets, offset_at, offset_lengths),
        "tokens": tokens.astype(np.int32),
        "weight": np.ones(len(tokens), dtype=np.float32),
        "example": cut.example.astype(np.int32),
        "context_first": context_first.astype(np.int32),
        "context_last": (context_first + cut.length).astype(np.int32),
        "cls": cls.astype(np.int32),
        "start": start.astype(np.int32),
        "end": end.astype(np.int32),
    }


def _pools(
    contexts: Encoded, questions: Encoded, template: Template
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """All token ids a window can be made of, one after the other, and their type ids."""
    ids = np.concatenate([*template.pieces, questions.ids, contexts.ids])
    types = np.concatenate(
        [
            *template.piece_types,
            np.full(len(questions.ids), template.question_type, dtype=np.int8),
            np.full(len(contexts.ids), template.context_type, dtype=np.int8),
        ]
    )
    return ids, types
