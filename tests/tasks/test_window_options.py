"""What goes into windows and what comes out: sizes, blank fields, columns, refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from lightwork.errors import DataError, SettingsError
from lightwork.tasks.extractive import encoding
from lightwork.tasks.extractive.examples import Example
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import (
    NARROW,
    TEXTS,
    TWELVE,
    Columns,
    byte_tokenizer,
    example,
    examples,
    label_text,
    word_tokenizer,
    word_windows,
)


def test_cutting_and_padding_stored_with_a_tokenizer_are_ignored(wordpiece_folder: Path) -> None:
    tokenizer = load_tokenizer(str(wordpiece_folder))
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=99)
    items = examples(example("q", "Who?", TEXTS[0], "Odell Wick"))
    windows = build_windows(items, tokenizer, WindowOptions(200, 16, 16), training=True)
    assert label_text(windows, 0) == "Odell Wick"
    assert Columns(windows).column("tokens")[0] < 99


@pytest.mark.parametrize(
    "options",
    [
        WindowOptions(32, 8, 64),
        WindowOptions(24, 24, 8),
        WindowOptions(20, 9, 8),
        WindowOptions(11, 0, 8),
        WindowOptions(64, -1, 8),
    ],
)
def test_sizes_without_room_name_the_settings(options: WindowOptions, wordpiece: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        build_windows(examples(), wordpiece, options, training=True)
    for value in (
        f"data.max_length {options.max_length}",
        f"data.stride {options.stride}",
        f"data.max_question_length {options.max_question_length}",
    ):
        assert value in str(caught.value)


def test_a_long_question_keeps_its_first_tokens_and_is_counted() -> None:
    item = example("long", "Which " + "very " * 40 + "run?", TWELVE, "w4")
    windows = word_windows(examples(item, example("ok", "Which run?", TWELVE, "w4")))
    assert windows.summary["cut_questions"] == 1
    assert windows.listed["cut_questions"] == ["long"]
    ids = [Columns(windows).row("input_ids", 0)[1:3].tolist(), Columns(windows).column("cls")[0]]
    texts = [TWELVE, item.question, "Which run?"]
    assert ids[0] == word_tokenizer(texts).convert_tokens_to_ids(["Which", "very"])


def test_blanks_around_a_question_are_not_tokenised(bytewise: Any) -> None:
    items = examples(
        example("padded", " " * 600 + "Who?\n", TEXTS[0]), example("plain", "Who?", TEXTS[0])
    )
    windows = build_windows(items, bytewise, WindowOptions(300, 16, 32), training=False)
    rows = Columns(windows)
    assert rows.row("input_ids", 0).tolist() == rows.row("input_ids", 1).tolist()
    assert rows.text("example_question", 0) == " " * 600 + "Who?\n"


def test_unusable_examples_are_not_trained_on_but_predicted() -> None:
    good = example("ok", "Which run?", TWELVE, "w4")
    items = [
        good,
        dataclasses.replace(good, id="blankq", question=" ", unusable="blank_questions"),
        Example("blanka", "Which run?", TWELVE, (), True, unusable="blank_answers"),
        Example("blankc", "Which run?", " \n", (), True, unusable="blank_contexts"),
    ]
    windows = word_windows(examples(*items))
    rows = Columns(windows)
    assert {rows.text("example_id", n) for n in rows.column("example")} == {"ok"}
    assert windows.summary["unusable_examples"] == 3
    assert "no_answer_windows" not in windows.summary

    windows = word_windows(examples(*items), training=False)
    rows = Columns(windows)
    assert {rows.text("example_id", n) for n in rows.column("example")} == {
        "ok",
        "blankq",
        "blanka",
    }
    assert windows.listed["unusable_examples"] == ["blankc"]
    assert len(rows.column("example_context")) == 4


def test_a_context_without_any_token_gives_one_window(wordpiece: Any) -> None:
    items = examples(example("q", "Who?", "\x10\x11"))
    windows = build_windows(items, wordpiece, WindowOptions(64, 8, 16), training=False)
    rows = Columns(windows)
    assert windows.summary["windows"] == 1
    assert rows.column("context_first")[0] == rows.column("context_last")[0]
    assert len(rows.row("offsets", 0)) == 0


def test_training_data_without_a_window_is_an_error() -> None:
    items = examples(example("q", "Which run?", TWELVE, "w2 w3 w4 w5 w6 w7 w8"))
    with pytest.raises(DataError, match="none of the 1 examples gives a window"):
        word_windows(items)


def test_columns_have_the_types_and_rows_a_store_expects() -> None:
    items = examples(
        example("q1", "Which run?", TWELVE, "w4", "w5"), example("q2", "Which?", TWELVE, "w1")
    )
    windows = word_windows(items)
    plain = {
        name: column.dtype.name
        for name, column in windows.columns.items()
        if isinstance(column, np.ndarray)
    }
    positions = ["context_first", "context_last", "cls", "start", "end"]
    integers = ["tokens", "example", "example_context", *positions]
    assert plain == {**dict.fromkeys(integers, "int32"), "weight": "float32"}
    ragged = {
        name: column[0].dtype.name
        for name, column in windows.columns.items()
        if isinstance(column, tuple)
    }
    assert ragged == {
        **{"input_ids": "int32", "type_ids": "int8", "offsets": "int32", "context": "uint8"},
        **dict.fromkeys(["example_id", "example_question", "example_answers"], "uint8"),
    }
    for column in windows.columns.values():
        if isinstance(column, tuple):
            assert column[1].dtype == np.int64
            assert column[1][0] == 0
            assert column[1][-1] == len(column[0])
    rows = Columns(windows)
    assert len(windows.columns["context"][1]) == 2
    assert rows.text("example_answers", 0) == '["w4", "w5"]'
    for index, tokens in enumerate(rows.column("tokens")):
        assert len(rows.row("input_ids", index)) == tokens
        width = rows.column("context_last")[index] - rows.column("context_first")[index]
        assert len(rows.row("offsets", index)) == 2 * width


def test_progress_counts_contexts_and_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK_TEXTS", 512)
    items = examples(*(example(str(i), "Which?", f"w{i} w0", "w0") for i in range(700)))
    told: list[tuple[int, int]] = []
    tokenizer = word_tokenizer(["Which? w0"])
    options = WindowOptions(16, 2, 4)
    build_windows(
        items, tokenizer, options, training=True, progress=lambda *step: told.append(step)
    )
    assert told == [(512, 1400), (700, 1400), (1212, 1400), (1400, 1400)]


def test_a_tokenizer_without_offsets_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(SettingsError, match="fast tokenizer"):
        build_windows(examples(), Slow(), NARROW, training=True)


def test_a_tokenizer_without_special_tokens_is_refused() -> None:
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare)
    with pytest.raises(SettingsError, match="no special token before"):
        build_windows(examples(), tokenizer, NARROW, training=True)


@pytest.fixture(scope="module")
def bytewise() -> Any:
    return byte_tokenizer(TEXTS[:2])
