"""Texts -> flat arrays of token ids and character offsets, many at once in the tokenizer's threads.

Questions and contexts are tokenised once each and put together by the tokenizer's own template,
so a context that five questions share is tokenised once, and windows are slices of arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import SettingsError

CHUNK_TEXTS = 2048
"""At most so many texts are given to the tokenizer at a time; progress is told after each time."""

CHUNK_CHARACTERS = 1 << 18
"""And at most so many characters, unless one text has more."""

AHEAD = 4
"""Chunks that the tokenizer's threads work on while an earlier one becomes arrays."""

BLANK = np.array([chr(code).isspace() for code in range(0x3001)] + [False])
"""Whether a code point is white space; the last place stands for all above U+3000."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Encoded:
    """Token ids of many texts, one after the other; text ``i`` is ``starts[i] : starts[i + 1]``."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    offsets: NDArray[np.int32]
    """``[tokens, 2]``: first character and the one after the last, in code points of its text.

    Both columns never fall within a text. Where no offsets were asked for there are none.
    """

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text."""
        return np.diff(self.starts)

    def only(self, texts: NDArray[np.int64]) -> Encoded:
        """The tokens of these ``texts``, in this order."""
        lengths = self.lengths[texts]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.arange(starts[-1]) + np.repeat(self.starts[texts] - starts[:-1], lengths)
        return Encoded(self.ids[tokens], starts, self.offsets[tokens])


NOTHING = Encoded(
    np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64), np.empty((0, 2), dtype=np.int32)
)
"""No texts."""


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


class Texts(NamedTuple):
    """Texts to tokenise. Without ``offsets`` the tokenizer is faster."""

    texts: Sequence[str]
    offsets: bool = True


class _Chunk(NamedTuple):
    texts: Sequence[str]
    offsets: bool
    last: bool
    """Whether it is the end of its ``Texts``."""


def encode(tokenizer: Any, texts: Sequence[str], progress: Progress | None = None) -> Encoded:
    """Tokenise ``texts`` as :func:`encode_each` does."""
    (encoded,) = encode_each(tokenizer, [Texts(texts)], progress)
    return encoded


def encode_each(
    tokenizer: Any, lists: Iterable[Texts], progress: Progress | None = None
) -> Generator[Encoded, None, None]:
    """Tokenise each of ``lists`` without special tokens; ``progress`` gets the texts done so far.

    The tokenizer is already at the next texts, also those of the next list, while these become
    arrays and while the caller works with them.

    The span of a token, its offsets, has no blank at its edges: byte-level tokenizers glue the
    blank before a word to it, and a prediction is a slice of the context by offsets. A token of
    blanks alone, or of nothing, begins where the next token does and ends where the last one did,
    so that a run of tokens is always the slice from its first to its last visible character; it
    ends before it begins when none of its tokens has any.
    """
    done = 0
    parts: list[Encoded] = []
    with closing(_tokenised(_unpadded(tokenizer), _chunks(lists))) as tokenised:
        for chunk, encodings in tokenised:
            parts.append(_arrays(chunk, encodings))
            done += len(chunk.texts)
            if progress is not None and chunk.texts:
                progress(done)
            if chunk.last:
                yield joined(parts)
                parts = []


def runs(sizes: Iterable[int], most: int, size: int) -> Iterator[tuple[int, int]]:
    """``(first, last + 1)`` of runs with at most ``most`` entries and ``size`` in all.

    An entry that is larger than ``size`` is a run by itself. There is at least one run, which may
    be empty.
    """
    first, index, total = 0, -1, 0
    for index, own in enumerate(sizes):
        total += own
        if index > first and (index - first == most or total > size):
            yield first, index
            first, total = index, own
    yield first, index + 1


def _chunks(lists: Iterable[Texts]) -> Iterator[_Chunk]:
    for texts, offsets in lists:
        for first, last in runs(map(len, texts), CHUNK_TEXTS, CHUNK_CHARACTERS):
            yield _Chunk(texts[first:last], offsets, last == len(texts))


def _tokenised(
    backend: Any, chunks: Iterable[_Chunk]
) -> Generator[tuple[_Chunk, list[Any]], None, None]:
    running: deque[tuple[_Chunk, Future[list[Any]]]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool:
        try:
            for chunk in chunks:
                # Both are Rust code that lets other Python threads go on, and give the same ids.
                call = backend.encode_batch if chunk.offsets else backend.encode_batch_fast
                texts = list(chunk.texts)
                running.append((chunk, pool.submit(call, texts, add_special_tokens=False)))
                if len(running) > AHEAD:
                    yield _first(running)
            while running:
                yield _first(running)
        finally:
            for _, future in running:
                future.cancel()


def _first(running: deque[tuple[_Chunk, Future[list[Any]]]]) -> tuple[_Chunk, list[Any]]:
    chunk, future = running.popleft()
    return chunk, future.result()


def _arrays(chunk: _Chunk, encodings: list[Any]) -> Encoded:
    lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tokens = int(starts[-1])
    ids = np.fromiter(chain.from_iterable(one.ids for one in encodings), np.int32, tokens)
    if not chunk.offsets:
        return Encoded(ids, starts, np.empty((0, 2), dtype=np.int32))
    pairs = chain.from_iterable(one.offsets for one in encodings)
    spans = np.fromiter(chain.from_iterable(pairs), np.int32, 2 * tokens).reshape(-1, 2)
    return Encoded(ids, starts, _visible(spans, lengths, chunk.texts))


def joined(parts: Sequence[Encoded]) -> Encoded:
    """The texts of all ``parts``, one after the other."""
    lengths = np.concatenate([part.lengths for part in parts])
    return Encoded(
        ids=np.concatenate([part.ids for part in parts]),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        offsets=np.concatenate([part.offsets for part in parts]),
    )


def _visible(
    spans: NDArray[np.int32], lengths: NDArray[np.int64], texts: Sequence[str]
) -> NDArray[np.int32]:
    """The ``spans`` of ``lengths[i]`` tokens of each text, by the rule of :func:`encode_each`."""
    # All texts as one, with a visible character around each: borders stop at it.
    codes = np.frombuffer(f".{'.'.join(texts)}.".encode("utf-32-le"), dtype=np.uint32)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    text_first = np.cumsum(sizes + 1) - sizes
    begin, end = np.repeat(text_first, lengths), np.repeat(text_first + sizes, lengths)
    first, last = spans[:, 0] + begin, spans[:, 1] + begin
    move_first, move_last = _blank(codes[first]), _blank(codes[last - 1])
    if move_first.any() or move_last.any():
        visible = np.flatnonzero(~_blank(codes))
        first[move_first] = visible[np.searchsorted(visible, first[move_first])]
        last[move_last] = visible[np.searchsorted(visible, last[move_last]) - 1] + 1
    # Of a token that shows nothing, the borders of the nearest ones that do. This also keeps spans
    # from falling, whatever order a tokenizer gives them in: labels are found by halving.
    empty = first >= last
    first = np.minimum.accumulate(np.where(empty, len(codes), first)[::-1])[::-1]
    last = np.maximum.accumulate(np.where(empty, 0, last))
    inside = np.minimum(first, end) - begin, np.maximum(last, begin) - begin
    return np.stack(inside, axis=1).astype(np.int32)


def _blank(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    blank: NDArray[np.bool_] = BLANK[np.minimum(codes, len(BLANK) - 1)]
    return blank
