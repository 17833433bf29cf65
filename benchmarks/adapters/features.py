"""Tokenised windows as users of the peers make and cache them, and as their data sets.

Question and context are encoded as a pair, only the context is cut, windows overlap by ``stride``
tokens. A window without the whole answer is labelled with its classification token, [CLS].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.examples import Example

COLUMNS = ("ids", "types", "offsets", "starts", "context", "example", "labels")


@dataclass(frozen=True)
class Features:
    """All windows of some questions; flat arrays, window ``w`` is ``starts[w] : starts[w + 1]``."""

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    offsets: NDArray[np.int32]
    """``[tokens, 2]``: characters in the text a token comes from."""
    starts: NDArray[np.int64]
    context: NDArray[np.int32]
    """``[windows, 2]``: the first token of the context and the one behind its last."""
    example: NDArray[np.int32]
    """``[windows]``: the question a window belongs to."""
    labels: NDArray[np.int32]
    """``[windows, 2]``: first and last token of the answer."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each window."""
        return np.diff(self.starts)

    def save(self, path: Path) -> None:
        """Write one uncompressed ``.npz``."""
        with path.open("wb") as file:
            np.savez(file, **{name: getattr(self, name) for name in COLUMNS})

    @staticmethod
    def load(path: str) -> Features:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as columns:
            return Features(*(columns[name] for name in COLUMNS))

    def only(self, windows: Sequence[int]) -> Features:
        """These windows; the numbers of their questions stay."""
        pieces = [slice(self.starts[w], self.starts[w + 1]) for w in windows]
        return Features(
            ids=np.concatenate([self.ids[piece] for piece in pieces]),
            types=np.concatenate([self.types[piece] for piece in pieces]),
            offsets=np.concatenate([self.offsets[piece] for piece in pieces]),
            starts=np.concatenate([[0], np.cumsum(self.lengths[list(windows)])]),
            context=self.context[list(windows)],
            example=self.example[list(windows)],
            labels=self.labels[list(windows)],
        )


def tokenise(tokenizer: Any, examples: Sequence[Example], max_length: int, stride: int) -> Features:
    """The windows of all ``examples``, in order, labelled with their first gold answers.

    Raises:
        SettingsError: the model does not tell question and context apart by token types.
    """
    if "token_type_ids" not in tokenizer.model_input_names:
        raise SettingsError("--model: the race needs a model with token types, such as BERT")
    encoded = tokenizer(
        [example.question.strip() for example in examples],
        [example.context for example in examples],
        truncation="only_second",
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=False,
    )
    example_of = encoded["overflow_to_sample_mapping"]
    contexts, labels = [], []
    for window, number in enumerate(example_of):
        inside = [i for i, part in enumerate(encoded.sequence_ids(window)) if part == 1]
        contexts.append((inside[0], inside[-1] + 1) if inside else (0, 0))
        cls = encoded["input_ids"][window].index(tokenizer.cls_token_id)
        offsets = encoded["offset_mapping"][window]
        labels.append(_label(examples[number], offsets, contexts[-1]) or (cls, cls))
    lengths = [len(ids) for ids in encoded["input_ids"]]
    return Features(
        ids=_flat(encoded["input_ids"], np.int32),
        types=_flat(encoded["token_type_ids"], np.int8),
        offsets=_flat(encoded["offset_mapping"], np.int32),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        context=np.array(contexts, np.int32),
        example=np.array(example_of, np.int32),
        labels=np.array(labels, np.int32),
    )


def _flat(rows: list[list[Any]], dtype: type[Any]) -> NDArray[Any]:
    return np.array([value for row in rows for value in row], dtype=dtype)


def _label(
    example: Example, offsets: list[tuple[int, int]], context: tuple[int, int]
) -> tuple[int, int] | None:
    """First and last token of the answer; None where the window does not hold all of it."""
    answer = example.learned
    if answer is None or answer.start is None:
        return None
    start, end = answer.start, answer.start + len(answer.text)
    first, behind = context
    if first == behind or offsets[first][0] > start or offsets[behind - 1][1] < end:
        return None
    touched = [i for i in range(first, behind) if offsets[i][0] < end and offsets[i][1] > start]
    return (touched[0], touched[-1]) if touched else None


class WindowData(Dataset[dict[str, Any]]):
    """Windows as plain lists, for a collator that pads each batch to its longest."""

    def __init__(self, features: Features, *, labels: bool) -> None:
        self.features = features
        self.labels = labels

    def __len__(self) -> int:
        return len(self.features.example)

    def __getitem__(self, window: int) -> dict[str, Any]:
        piece = slice(self.features.starts[window], self.features.starts[window + 1])
        ids = self.features.ids[piece].tolist()
        item: dict[str, Any] = {
            "input_ids": ids,
            "token_type_ids": self.features.types[piece].tolist(),
            "attention_mask": [1] * len(ids),
        }
        if self.labels:
            start, end = self.features.labels[window].tolist()
            item |= {"start_positions": start, "end_positions": end}
        return item


class PaddedData(Dataset[dict[str, Tensor]]):
    """Windows padded to ``max_length`` when they are cached: nothing is left to do for a batch."""

    def __init__(self, features: Features, max_length: int, pad_id: int, *, labels: bool) -> None:
        count = len(features.example)
        self.columns = {
            "input_ids": torch.full((count, max_length), pad_id),
            "token_type_ids": torch.zeros((count, max_length), dtype=torch.long),
            "attention_mask": torch.zeros((count, max_length), dtype=torch.long),
        }
        for window, length in enumerate(features.lengths.tolist()):
            piece = slice(features.starts[window], features.starts[window + 1])
            row = slice(0, length)
            self.columns["input_ids"][window, row] = torch.from_numpy(features.ids[piece])
            self.columns["token_type_ids"][window, row] = torch.from_numpy(features.types[piece])
            self.columns["attention_mask"][window, row] = 1
        if labels:
            start, end = torch.from_numpy(features.labels.astype(np.int64)).unbind(1)
            self.columns |= {"start_positions": start, "end_positions": end}

    def __len__(self) -> int:
        return len(self.columns["input_ids"])

    def __getitem__(self, window: int) -> dict[str, Tensor]:
        return {name: column[window] for name, column in self.columns.items()}


def longest_first(features: Features) -> list[int]:
    """All windows, longest first: sorted like this, evaluation batches need little padding."""
    return [int(window) for window in np.argsort(-features.lengths, kind="stable")]
