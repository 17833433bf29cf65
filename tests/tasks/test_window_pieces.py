"""Examples are cut in pieces: of any size they give the same, and memory stays that of a piece."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import example as always
from hypothesis import given, settings
from hypothesis import strategies as st

from lightwork.tasks.extractive import encoding, pieces, windows
from lightwork.tasks.extractive.examples import Example, Examples
from lightwork.tasks.extractive.windows import Windows, build_windows, write_windows
from tests.tasks.made import (
    NARROW,
    TWELVE,
    WORDS,
    example,
    examples,
    label_text,
    word_tokenizer,
)

OTHER = " ".join(WORDS[20:30])


def mixed(impossible: bool) -> Examples:
    """Everything that is counted, with contexts that come back after others."""
    good = example("q1", "Which run?", TWELVE, "w4")
    items = [
        good,
        example("q2", "Which run?", OTHER, "w21"),
        example("long", "Which very very very run?", OTHER, "w25"),
        dataclasses.replace(good, id="blank", question=" ", unusable="blank_questions"),
        example("cut", "Which run?", TWELVE, "w2 w3 w4 w5 w6 w7 w8"),
        Example("no context", "Which?", " ", (), True, unusable="blank_contexts"),
        example("part", "Which run?", OTHER, "2 w23 w2"),
        example("q3", "Which?", "w40", "w40"),
        example("q4", "Which?", TWELVE, "w11"),
    ]
    if impossible:
        items.insert(4, example("none", "Which?", TWELVE))
    return examples(*items)


def same(one: Windows, other: Windows) -> None:
    """All of it, the order of what is told and every dtype included."""
    assert list(one.summary.items()) == list(other.summary.items())
    assert list(one.listed.items()) == list(other.listed.items())
    assert list(one.columns) == list(other.columns)
    for name, column in one.columns.items():
        pairs = [(column, other.columns[name])]
        if isinstance(column, tuple):
            pairs = list(zip(column, other.columns[name], strict=True))
        for left, right in pairs:
            assert isinstance(left, np.ndarray)
            assert isinstance(right, np.ndarray)
            assert left.dtype == right.dtype, name
            assert left.tolist() == right.tolist(), name


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("impossible", [True, False])
@pytest.mark.parametrize("limits", [(1, 1 << 22), (4, 1 << 22), (100, 1), (100, 60)])
def test_pieces_of_any_size_give_the_same(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], impossible: bool, training: bool
) -> None:
    items = mixed(impossible)
    tokenizer = word_tokenizer(text for item in items for text in (item.context, item.question))
    whole = build_windows(items, tokenizer, NARROW, training=training)
    monkeypatch.setattr(pieces, "PIECE_EXAMPLES", limits[0])
    monkeypatch.setattr(pieces, "PIECE_CHARACTERS", limits[1])
    monkeypatch.setattr(encoding, "CHUNK_TEXTS", 2)
    made: list[dict[str, Any]] = []
    facts = write_windows(items, tokenizer, NARROW, made.append, training=training)
    assert len(made) > 1
    assert sum(len(piece["tokens"]) for piece in made) == facts.summary["windows"]
    assert sum(len(piece["context"][1]) - 1 for piece in made) == 4, "each context once"
    same(build_windows(items, tokenizer, NARROW, training=training), whole)


TEN = [" ".join(WORDS[n : n + 2 + 3 * n]) for n in range(10)]


@given(order=st.lists(st.integers(0, 9), min_size=1, max_size=25), size=st.integers(1, 7))
@always(order=[0, 1, 2, 3, 3, 0], size=2)
@settings(deadline=None, max_examples=40)
def test_contexts_may_come_back_in_any_order(order: list[int], size: int) -> None:
    items = examples(
        *(example(str(n), "Which?", TEN[number], f"w{number}") for n, number in enumerate(order))
    )
    tokenizer = word_tokenizer(WORDS)
    whole = build_windows(items, tokenizer, NARROW, training=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_EXAMPLES", size)
        same(build_windows(items, tokenizer, NARROW, training=True), whole)
    for index, number in enumerate(whole.columns["example"]):
        assert label_text(whole, index) == f"w{order[number]}"


def test_every_kind_is_counted_in_the_order_it_is_told() -> None:
    items = mixed(impossible=True)
    tokenizer = word_tokenizer(text for item in items for text in (item.context, item.question))
    found = build_windows(items, tokenizer, NARROW, training=True)
    kinds = [kind for kind in windows.NOTED if kind != "windows_without_answer"]
    assert list(found.summary) == ["examples", "windows", *kinds]
    assert found.listed == {
        "unusable_examples": ["blank", "no context"],
        "cut_questions": ["long"],
        "off_border_answers": ["part"],
        "cut_answers": ["cut"],
    }


def test_memory_is_that_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_EXAMPLES", 50)
    monkeypatch.setattr(encoding, "CHUNK_TEXTS", 50)
    tokenizer = word_tokenizer(WORDS)
    contexts = [" ".join(WORDS[n % 7 :] * 3 + [f"c{n}"]) for n in range(1000)]
    items = [example(str(n), "Which?", context, "w9") for n, context in enumerate(contexts)]
    options = dataclasses.replace(NARROW, max_length=64, stride=16)
    peaks = []
    for count in (250, 1000):
        some = examples(*items[:count])
        tracemalloc.start()
        write_windows(some, tokenizer, options, lambda _piece: None, training=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    bytes_each = 400
    assert peaks[1] - peaks[0] < 750 * bytes_each, peaks


def test_a_context_of_neighbours_is_tokenised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_EXAMPLES", 3)
    texts = [TWELVE] * 8 + [OTHER] * 2 + ["w40"] * 4 + [TWELVE]
    items = examples(*(example(str(n), "Which?", text) for n, text in enumerate(texts)))
    told: list[tuple[int, int]] = []
    tokenizer = word_tokenizer(texts)
    write_windows(
        items,
        tokenizer,
        NARROW,
        lambda _piece: None,
        training=True,
        progress=lambda *step: told.append(step),
    )
    back = 1  # the last context was there before, but not in the piece before
    assert told[-1] == (15 + 3 + back, 15 + 3 + back)


def test_texts_of_a_chunk_are_limited_by_their_characters() -> None:
    assert list(encoding.runs([3, 3, 3, 9, 1], 10, 6)) == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert list(encoding.runs([1] * 5, 2, 100)) == [(0, 2), (2, 4), (4, 5)]
    assert list(encoding.runs([], 2, 100)) == [(0, 0)]
    assert list(encoding.runs([0, 0], 2, 0)) == [(0, 2)]


class OddBackend:
    """Tokens that stand in another order than their characters, and tokens of no characters."""

    def no_truncation(self) -> None:
        pass

    no_padding = no_truncation

    def encode_batch(self, texts: list[str], *, add_special_tokens: bool) -> list[Any]:
        spans = {"a bc d": [(0, 0), (0, 2), (3, 4), (2, 3), (0, 0), (4, 6), (6, 6)], " e": [(0, 1)]}
        return [Encoding(spans[text]) for text in texts]


class Encoding:
    def __init__(self, offsets: list[tuple[int, int]]) -> None:
        self.offsets = offsets
        self.ids = list(range(len(offsets)))

    def __len__(self) -> int:
        return len(self.ids)


def test_spans_never_fall_and_stay_in_their_text() -> None:
    tokenizer = type("Odd", (), {"backend_tokenizer": OddBackend()})
    encoded = encoding.encode(tokenizer, ["a bc d", " e", "a bc d"])
    odd = [[0, 0], [0, 1], [2, 4], [2, 4], [5, 4], [5, 6], [6, 6]]
    assert encoded.offsets.tolist() == [*odd, [2, 0], *odd]
    assert encoded.starts.tolist() == [0, 7, 8, 15]
