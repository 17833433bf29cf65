"""Texts -> flat arrays of token ids and character offsets, many at once in the tokenizer's threads.

Questions and contexts are tokenised once each and put together by the tokenizer's own template,
so a context that five questions share is tokenised once, and windows are slices of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import SettingsError

CHUNK = 512
"""Texts given to the tokenizer at a time; progress is told after each."""

BLANK = np.array([chr(code).isspace() for code in range(0x3001)] + [False])
"""Whether a code point is white space; the last place stands for all above U+3000."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Encoded:
    """Token ids of many texts, one after the other; text ``i`` is ``starts[i] : starts[i + 1]``."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    offsets: NDArray[np.int32]
    """``[tokens, 2]``: first character and the one after the last, in code points of its text."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class Template:
    """The special tokens before, between and after a question and its context."""

    pieces: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
    piece_types: tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]
    question_type: int
    context_type: int
    cls_piece: int
    cls_index: int
    """The classification token is this one of piece ``cls_piece``: not the first in every model."""

    @property
    def special_tokens(self) -> int:
        """How many tokens of a window are neither question nor context."""
        return sum(len(piece) for piece in self.pieces)

    def cls_positions(
        self, question_tokens: NDArray[np.int64], context_tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Where the classification token stands in windows with these parts."""
        at = np.full(len(question_tokens), self.cls_index, dtype=np.int64)
        if self.cls_piece >= 1:
            at += len(self.pieces[0]) + question_tokens
        if self.cls_piece == 2:
            at += len(self.pieces[1]) + context_tokens
        return at


def template_of(tokenizer: Any) -> Template:
    """Learn the template from one encoded pair. Raises ``SettingsError`` for a slow tokenizer."""
    name = type(tokenizer).__name__
    if not getattr(tokenizer, "is_fast", False):
        raise SettingsError(
            f"model.source: the tokenizer {name} knows no character offsets; "
            "take a model with a fast tokenizer (one with a tokenizer.json)"
        )
    pair = _unpadded(tokenizer).encode("a", "a")
    question = [index for index, part in enumerate(pair.sequence_ids) if part == 0]
    context = [index for index, part in enumerate(pair.sequence_ids) if part == 1]
    if not question or not context or question[-1] > context[0]:
        raise SettingsError(
            f"model.source: the tokenizer {name} does not put a question before its context; "
            "take another model"
        )
    cuts = [question[0], question[-1] + 1, context[0], context[-1] + 1]
    before, _, between, _, after = np.split(np.array(pair.ids, dtype=np.int32), cuts)
    types = np.split(np.array(pair.type_ids, dtype=np.int8), cuts)
    cls_piece, cls_index = _find_cls(tokenizer, (before, between, after))
    return Template(
        pieces=(before, between, after),
        piece_types=(types[0], types[2], types[4]),
        question_type=int(types[1][0]),
        context_type=int(types[3][0]),
        cls_piece=cls_piece,
        cls_index=cls_index,
    )


def _find_cls(tokenizer: Any, pieces: Sequence[NDArray[np.int32]]) -> tuple[int, int]:
    for name in ("cls_token_id", "bos_token_id"):
        token = getattr(tokenizer, name, None)
        for number, piece in enumerate(pieces):
            if token is not None and token in piece:
                return number, int(np.flatnonzero(piece == token)[0])
    if len(pieces[0]):
        return 0, 0
    raise SettingsError(
        f"model.source: the tokenizer {type(tokenizer).__name__} puts no special token before "
        'the question that could stand for "no answer"; take an encoder such as BERT'
    )


def _unpadded(tokenizer: Any) -> Any:
    """The Rust tokenizer, without the cutting and padding that a tokenizer.json may carry."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return backend


def encode(tokenizer: Any, texts: Sequence[str], progress: Progress | None = None) -> Encoded:
    """Tokenise ``texts`` without special tokens; ``progress`` gets the number done so far.

    Offsets never cover blanks at the edge of a token: byte-level tokenizers glue the blank before
    a word to it, and a prediction is a slice of the context by offsets.
    """
    backend = _unpadded(tokenizer)
    ids: list[NDArray[np.int32]] = [np.empty(0, dtype=np.int32)]
    offsets: list[NDArray[np.int32]] = [np.empty((0, 2), dtype=np.int32)]
    lengths = np.empty(len(texts), dtype=np.int64)
    for first in range(0, len(texts), CHUNK):
        chunk = list(texts[first : first + CHUNK])
        for index, encoding in enumerate(backend.encode_batch(chunk, add_special_tokens=False)):
            ids.append(np.array(encoding.ids, dtype=np.int32))
            spans = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
            offsets.append(_without_blanks(spans, chunk[index]))
            lengths[first + index] = len(spans)
        if progress is not None:
            progress(first + len(chunk))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Encoded(np.concatenate(ids), starts, np.concatenate(offsets))


def _without_blanks(spans: NDArray[np.int32], text: str) -> NDArray[np.int32]:
    """Move the borders of ``spans`` inwards until no span begins or ends with a blank."""
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    # One place more: an empty token may stand at the very end of the text.
    blank = np.append(BLANK[np.minimum(codes, len(BLANK) - 1)], False)
    while (move := blank[spans[:, 0]] & (spans[:, 0] < spans[:, 1])).any():
        spans[move, 0] += 1
    while (move := blank[spans[:, 1] - 1] & (spans[:, 0] < spans[:, 1])).any():
        spans[move, 1] -= 1
    return spans
