"""Windows cover every token, labels decode to the gold text, cuts are the tokenizer's own."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightwork.tasks.extractive.examples import Answer, Example
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import (
    TEXTS,
    TWELVE,
    WORDS,
    Columns,
    byte_tokenizer,
    context_words,
    example,
    examples,
    label_text,
    word_windows,
)


def test_three_windows_of_six_words_and_only_the_whole_answer_is_learned() -> None:
    both = examples(
        example("q1", "Which run?", TWELVE, "w4 w5 w6 w7"),
        example("q2", "Which run?", TWELVE, "w2 w3 w4 w5 w6 w7 w8"),
    )
    windows = word_windows(both, training=False)
    assert [context_words(windows, i) for i in range(3)] == [WORDS[0:6], WORDS[3:9], WORDS[6:12]]
    assert windows.summary == {"examples": 2, "windows": 6}

    windows = word_windows(both)
    assert windows.summary == {
        "examples": 2,
        "windows": 1,
        "cut_answers": 1,
        "windows_without_answer": 5,
    }
    assert windows.listed == {"cut_answers": ["q2"]}
    rows = Columns(windows)
    start, end, first = (rows.column(name)[0] for name in ("start", "end", "context_first"))
    assert (start - first, end - first) == (1, 4)
    assert label_text(windows, 0) == "w4 w5 w6 w7"


def test_with_impossible_questions_the_other_windows_are_labelled_no_answer() -> None:
    items = examples(
        example("q1", "Which run?", TWELVE, "w4 w5 w6 w7"),
        example("q2", "Which run?", TWELVE, "w2 w3 w4 w5 w6 w7 w8"),
        example("q3", "Which run?", TWELVE),
    )
    windows = word_windows(items)
    told = [label_text(windows, i) for i in range(9)]
    assert told == [None, "w4 w5 w6 w7", None, *[None] * 6]
    assert windows.summary["no_answer_windows"] == 8
    assert windows.summary["cut_answers"] == 1
    assert windows.listed["cut_answers"] == ["q2"]


@pytest.mark.parametrize("cls_last", [False, True])
def test_no_answer_is_the_place_of_the_classification_token(cls_last: bool) -> None:
    windows = word_windows(examples(example("q", "Which run?", TWELVE)), cls_last=cls_last)
    rows = Columns(windows)
    for index, tokens in enumerate(rows.column("tokens")):
        place = tokens - 1 if cls_last else 0
        assert rows.row("input_ids", index)[place] == 2
        assert rows.column("cls")[index] == rows.column("start")[index] == place


@given(
    words=st.integers(1, 60),
    question=st.integers(0, 9),
    max_question=st.integers(0, 6),
    stride=st.integers(0, 8),
    spare=st.integers(1, 12),
    answer=st.tuples(st.integers(0, 59), st.integers(1, 8)),
)
@settings(deadline=None, max_examples=60)
def test_coverage_count_and_short_answers(
    words: int,
    question: int,
    max_question: int,
    stride: int,
    spare: int,
    answer: tuple[int, int],
) -> None:
    first = answer[0] % words
    gold = " ".join(WORDS[first : min(first + answer[1], words)])
    context = " ".join(WORDS[:words])
    item = example("q", " ".join(["Which"] * question), context, gold)
    options = WindowOptions(3 + max_question + stride + spare, stride, max_question)
    windows = word_windows(examples(item), options, training=False)

    room = options.max_length - 3 - min(question, max_question)
    count = windows.summary["windows"]
    assert count == 1 + math.ceil(max(0, words - room) / (room - stride))
    seen = [context_words(windows, i) for i in range(count)]
    assert max(Columns(windows).column("tokens")) <= options.max_length
    assert seen[0] == WORDS[: min(words, room)]
    assert seen[-1][-1] == WORDS[words - 1]
    for left, right in itertools.pairwise(seen):
        assert left[len(left) - stride :] == right[:stride]
    assert windows.summary.get("cut_questions", 0) == (question > max_question)

    learned = len(gold.split()) <= room if count == 1 else len(gold.split()) <= stride
    if learned:
        trained = word_windows(examples(item), options)
        assert trained.summary.get("cut_answers", 0) == 0
        assert {label_text(trained, i) for i in range(trained.summary["windows"])} == {gold}


ALPHABET = st.sampled_from([*"ab Z.,-1", "é", "e\u0301", "ß", "İ", "\u200d", "\u00a0", "\u3000"])
SIGNS = st.sampled_from(["\r\n", "\t", "\x10", "王", "３", "Ａ", "\U0001f9d1\U0001f3fd", "ﬁ", "가"])


@pytest.fixture(scope="module")
def bytewise() -> Any:
    return byte_tokenizer(TEXTS[:2])


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_labels_decode_to_the_gold_text_of_any_unicode(
    wordpiece: Any, bytewise: Any, data: st.DataObject
) -> None:
    context = "".join(data.draw(st.lists(ALPHABET | SIGNS, min_size=1, max_size=40)))
    start = data.draw(st.integers(0, len(context) - 1))
    gold = context[start : data.draw(st.integers(start + 1, len(context)))]
    if not gold.strip():
        return
    item = Example("q", "Who?", context, (Answer(gold, start),), impossible=False)
    none = example("none", "Who?", "Nobody.")
    options = WindowOptions(max_length=300, stride=2, max_question_length=20)
    for tokenizer in (wordpiece, bytewise):
        windows = build_windows(examples(item, none), tokenizer, options, training=True)
        told = label_text(windows, 0)
        if "cut_answers" in windows.summary:
            assert told is None
        elif "off_border_answers" in windows.summary:
            assert told is not None
            assert told != gold
        else:
            assert told == gold
        # Byte-level tokens lose nothing, so an answer without blanks at its edges can always
        # be labelled and its tokens cover it.
        if tokenizer is bytewise and gold == gold.strip():
            assert told is not None
            assert gold in told


def test_plain_words_are_always_on_borders(wordpiece: Any, bytewise: Any) -> None:
    context = (
        "\u3000Zoe\u0308 Marr met Ines  Falk,\r\nthe\u00a0harbour\u200b master; 由王某设计。１２ 层"
    )
    golds = ["Zoe\u0308 Marr", "Ines  Falk", "the\u00a0harbour", "master", "王某", "１２ 层"]
    items = examples(*(example(f"q{i}", "Who?", context, gold) for i, gold in enumerate(golds)))
    for tokenizer in (wordpiece, bytewise):
        options = WindowOptions(200, 16, 16)
        windows = build_windows(items, tokenizer, options, training=True)
        assert [label_text(windows, i) for i in range(len(golds))] == golds


def test_an_answer_inside_a_token_keeps_the_covering_token_and_is_counted() -> None:
    items = examples(
        example("q", "Which run?", TWELVE, "4 w"), example("r", "Which?", TWELVE, "w4")
    )
    windows = word_windows(items)
    assert windows.summary["off_border_answers"] == 1
    assert windows.listed["off_border_answers"] == ["q"]
    assert label_text(windows, 0) == "w4 w5"


def test_the_first_gold_answer_is_learned() -> None:
    item = example("q", "Which run?", TWELVE, "w3", "w1")
    windows = word_windows(examples(item))
    assert {label_text(windows, i) for i in range(windows.summary["windows"])} == {"w3"}


@pytest.mark.parametrize("kind", ["wordpiece", "bytewise"])
def test_windows_are_those_of_the_tokenizer_itself(
    kind: str, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(kind)
    text = " ".join(TEXTS)
    items = examples(*(example(str(n), "Who, then?", text[:n]) for n in range(1, len(text), 7)))
    expected: dict[str, list[list[int]]] = {"input_ids": [], "token_type_ids": []}
    for item in items:
        encoded = tokenizer(
            item.question,
            item.context,
            truncation="only_second",
            max_length=40,
            stride=7,
            return_overflowing_tokens=True,
        )
        for name, values in expected.items():
            values.extend(encoded.get(name, []))
    windows = build_windows(items, tokenizer, WindowOptions(40, 7, 20), training=False)
    rows = Columns(windows)
    count = range(windows.summary["windows"])
    assert [rows.row("input_ids", i).tolist() for i in count] == expected["input_ids"]
    if kind == "wordpiece":
        assert [rows.row("type_ids", i).tolist() for i in count] == expected["token_type_ids"]
    else:
        assert "type_ids" not in windows.columns


def test_the_packaged_tokenizer_labels_every_word(packaged: str) -> None:
    tokenizer = load_tokenizer(packaged)
    context = " ".join(TEXTS)
    items = examples(
        *(
            example(str(word.start()), "Who?", context, word.group(), start=word.start())
            for word in re.finditer(r"\w+", context)
        )
    )
    windows = build_windows(items, tokenizer, WindowOptions(48, 12, 16), training=True)
    rows = Columns(windows)
    assert "cut_answers" not in windows.summary
    assert "off_border_answers" not in windows.summary
    for index, number in enumerate(rows.column("example")):
        assert label_text(windows, index) == items.items[number].answers[0].text
