"""Arrays as a store wants them: plain columns, and ragged ones as flat values with row starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.tasks.extractive.examples import Example

Ragged = tuple[NDArray[Any], NDArray[np.int64]]
Column = NDArray[Any] | Ragged

CHUNK = 4096
"""Rows gathered at a time, so that the index arrays stay small beside the result."""


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


def text_column(texts: Sequence[str]) -> Ragged:
    """Texts as UTF-8 bytes."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum(lengths)


def example_columns(
    items: Sequence[Example], contexts: Sequence[str], example_context: NDArray[np.int64]
) -> dict[str, Column]:
    """What merging and scoring need of the examples themselves; each context is kept once."""
    golds = [[answer.text for answer in item.answers] for item in items]
    return {
        "example_id": text_column([item.id for item in items]),
        "example_question": text_column([item.question for item in items]),
        "example_answers": text_column([json.dumps(gold, ensure_ascii=False) for gold in golds]),
        "example_context": example_context.astype(np.int32),
        "context": text_column(contexts),
    }
