"""Arrays as a store wants them: plain columns, and ragged ones as flat values with row starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.tasks.extractive.cutting import Cut
from lightwork.tasks.extractive.encoding import Encoded, Template
from lightwork.tasks.extractive.examples import Example

Ragged = tuple[NDArray[Any], NDArray[np.int64]]
Column = NDArray[Any] | Ragged

CHUNK = 4096
"""Rows gathered at a time, so that the index arrays stay small beside the result."""

_as_json = json.JSONEncoder(ensure_ascii=False).encode


def gather(pool: NDArray[Any], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Ragged:
    """Ragged rows made of runs of ``pool``; ``starts`` and ``lengths`` are ``[rows, runs]``."""
    row_starts = np.concatenate([[0], np.cumsum(lengths.sum(axis=1))]).astype(np.int64)
    values = np.empty(row_starts[-1], dtype=pool.dtype)
    for first in range(0, len(starts), CHUNK):
        last = min(first + CHUNK, len(starts))
        run_lengths = lengths[first:last].reshape(-1)
        shift = starts[first:last].reshape(-1) - (np.cumsum(run_lengths) - run_lengths)
        index = np.arange(run_lengths.sum()) + np.repeat(shift, run_lengths)
        values[row_starts[first] : row_starts[last]] = pool[index]
    return values, row_starts


def joined_columns(pieces: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """The columns of all ``pieces``, which have the same names, end to end."""
    columns: dict[str, Column] = {}
    for name, column in pieces[0].items():
        if isinstance(column, tuple):
            rows = [piece[name] for piece in pieces]
            lengths = np.concatenate([np.diff(starts) for _, starts in rows])
            starts = np.concatenate([[0], np.cumsum(lengths)])
            columns[name] = (np.concatenate([values for values, _ in rows]), starts)
        else:
            columns[name] = np.concatenate([piece[name] for piece in pieces])
    return columns


def text_column(texts: Sequence[str]) -> Ragged:
    """Texts as UTF-8 bytes."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum(lengths)


def example_columns(
    items: Sequence[Example], contexts: Sequence[str], example_context: NDArray[np.int64]
) -> dict[str, Column]:
    """What merging and scoring need of the examples themselves; each context is kept once."""
    # Text by text: an encoder that is given a list first builds a scanner for it.
    golds = [f"[{', '.join([_as_json(gold.text) for gold in item.answers])}]" for item in items]
    return {
        "example_id": text_column([item.id for item in items]),
        "example_question": text_column([item.question for item in items]),
        "example_answers": text_column(golds),
        "example_context": example_context.astype(np.int32),
        "context": text_column(contexts),
    }


def window_columns(
    cut: Cut, contexts: Encoded, questions: Encoded, template: Template
) -> dict[str, Column]:
    """What collating and merging need of the windows; ``type_ids`` may be of no use to a model."""
    before, between, after = (len(piece) for piece in template.pieces)
    context_first = before + cut.question_length + between
    cls = template.cls_positions(cut.question_length, cut.length)
    shift = context_first - cut.first
    start = np.where(cut.labelled, cut.label_first + shift, cls)
    end = np.where(cut.labelled, cut.label_last + shift, cls)
    tokens = context_first + cut.length + after
    ids, types = _pools(contexts, questions, template)
    context_at = contexts.starts[cut.context] + cut.first
    fixed = np.zeros_like(tokens)
    # Every window is five runs of one pool of ids: before, question, between, context, after.
    runs_at = (
        fixed,
        template.special_tokens + questions.starts[cut.example],
        fixed + before,
        template.special_tokens + len(questions.ids) + context_at,
        fixed + before + between,
    )
    runs = (fixed + before, cut.question_length, fixed + between, cut.length, fixed + after)
    at, lengths = np.stack(runs_at, axis=1), np.stack(runs, axis=1)
    # The two borders of a token move as one number.
    pairs = contexts.offsets.view(np.int64).reshape(-1)
    spans, span_starts = gather(pairs, context_at[:, None], cut.length[:, None])
    return {
        "input_ids": gather(ids, at, lengths),
        "type_ids": gather(types, at, lengths),
        "offsets": (spans.view(np.int32), 2 * span_starts),
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
