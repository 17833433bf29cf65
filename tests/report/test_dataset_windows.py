"""Lengths and windows are counted as training would have them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lightwork.data.plan import EpochPlan, padding_waste
from lightwork.report.dataset_tokens import Spread, character_lengths, tokenised
from lightwork.report.dataset_windows import Batching, window_facts
from lightwork.tasks.extractive.examples import Answer, Example, Examples
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import WORDS, Columns, byte_tokenizer, example, examples, word_tokenizer

BATCHING = Batching(batch_windows=4, micro_batch_tokens=64, seed=42)


def made(random_: random.Random, count: int, impossible: bool) -> Examples:
    """Questions of 1 to 6 words about contexts of 1 to 40, some with nothing to learn."""
    items = []
    contexts = [" ".join(random_.choices(WORDS, k=random_.randint(1, 40))) for _ in range(5)]
    for number in range(count):
        context = random_.choice(contexts)
        words = context.split(" ")
        first = random_.randrange(len(words))
        text = " ".join(words[first : first + random_.randint(1, 7)])
        start = len(" ".join(words[:first])) + bool(first)
        answers: tuple[Answer, ...] = (Answer(text, start),)
        if impossible and random_.random() < 0.3:
            answers = ()
        question = " ".join(random_.choices(WORDS, k=random_.randint(1, 6)))
        unusable = "blank_answers" if random_.random() < 0.1 else ""
        items.append(Example(str(number), question, context, answers, not answers, unusable))
    return examples(*items)


@pytest.mark.parametrize("impossible", [False, True])
@pytest.mark.parametrize("max_length", [12, 16, 40])
@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_windows_are_those_of_training(impossible: bool, max_length: int, kind: str) -> None:
    random_ = random.Random(max_length)
    for _ in range(10):
        read = made(random_, 30, impossible)
        texts = [text for item in read for text in (item.context, item.question)]
        tokenizer = word_tokenizer(texts) if kind == "words" else byte_tokenizer(texts)
        options = WindowOptions(max_length, stride=3, max_question_length=4)
        windows = build_windows(read, tokenizer, options, training=True)
        facts = window_facts(tokenised(read, tokenizer), options, BATCHING)
        summary = windows.summary
        assert facts.trained_windows == summary["windows"]
        assert facts.windows == summary["windows"] + summary.get("windows_without_answer", 0)
        assert facts.cut_answers == summary.get("cut_answers", 0)
        assert list(facts.cut_answers_ids) == windows.listed.get("cut_answers", [])
        assert facts.cut_questions == summary.get("cut_questions", 0)
        lengths = Columns(windows).column("tokens")
        assert facts.padding_to_max_length_share == pytest.approx(
            1 - lengths.sum() / (max_length * len(lengths))
        )
        planned = padding_waste(lengths, 1, 1, EpochPlan(42, 0, lengths, 4), 64)
        # The order of windows decides ties of length, and is the same.
        assert facts.padding_planned_share == planned


def counted(*items: Example, options: WindowOptions) -> Any:
    read = examples(*items)
    tokenizer = word_tokenizer([text for item in read for text in (item.context, item.question)])
    return window_facts(tokenised(read, tokenizer), options, BATCHING)


def test_windows_by_hand() -> None:
    """Room for six words, two of them shared: twelve words are three windows."""
    twelve = " ".join(WORDS[:12])
    facts = counted(
        example("long", "w0 w1 w2", twelve, "w5 w6 w7"),
        example("cut", "w0 w1", twelve, "w2 w3 w4 w5 w6 w7"),
        example("short", "w0", "w1 w2", "w2"),
        options=WindowOptions(max_length=11, stride=2, max_question_length=2),
    )
    # The last has room for seven words and holds two.
    assert (facts.windows, facts.windows_per_question) == (3 + 3 + 1, 7 / 3)
    assert facts.one_window_share == 1 / 3
    # Of the second, words 2 … 7 stand in no window: 0 … 5, 4 … 9, 8 … 11.
    assert (facts.cut_answers, facts.cut_answers_share) == (1, 1 / 3)
    assert (facts.trained_windows, facts.cut_questions) == (2, 1)
    assert facts.padding_to_max_length_share == pytest.approx(1 - (11 + 6) / 22)


def test_a_set_without_windows_to_train_on_is_counted() -> None:
    twelve = " ".join(WORDS[:12])
    facts = counted(
        example("cut", "w0 w1", twelve, "w2 w3 w4 w5 w6 w7 w8"),
        options=WindowOptions(max_length=11, stride=2, max_question_length=2),
    )
    assert (facts.trained_windows, facts.cut_answers) == (0, 1)
    assert (facts.padding_to_max_length_share, facts.padding_planned_share) == (0, 0)


def test_lengths_in_tokens() -> None:
    read = examples(
        example("a", " w0 w1 w2 ", "w1 w2 w3 w4", "w2 w3"),
        example("b", "w0", "w1 w2 w3 w4", "w4"),
        example("c", "w0", "w1"),
    )
    seen: list[tuple[int, int]] = []
    tokenizer = word_tokenizer([item.context + " " + item.question for item in read])
    lengths = tokenised(read, tokenizer, lambda *told: seen.append(told)).lengths()
    assert lengths.question == Spread(p50=1, p90=3, max=3)
    assert lengths.context == Spread(p50=1, p90=4, max=4)  # two distinct ones
    assert lengths.answer == Spread(p50=1, p90=2, max=2)
    assert lengths.whole == Spread(p50=8, p90=10, max=10)
    assert seen[-1] == (5, 5)


def test_blanks_around_a_question_are_no_tokens() -> None:
    padded, bare = examples(example("a", " w0\n\n", "w1")), examples(example("a", "w0", "w1"))
    tokenizer = byte_tokenizer(["w0 w1"])
    lengths = [tokenised(read, tokenizer).question.tolist() for read in (padded, bare)]
    assert lengths[0] == lengths[1]


def test_it_does_not_matter_how_much_is_tokenised_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = made(random.Random(1), 50, impossible=True)
    tokenizer = word_tokenizer([text for item in read for text in (item.context, item.question)])
    at_once = tokenised(read, tokenizer)
    monkeypatch.setattr("lightwork.tasks.extractive.pieces.PIECE_EXAMPLES", 3)
    in_pieces = tokenised(read, tokenizer)
    for name in ("question", "context", "distinct_context", "answer", "usable", "learned"):
        assert np.array_equal(getattr(at_once, name), getattr(in_pieces, name)), name


def test_lengths_in_characters() -> None:
    read = examples(
        example("a", " abc ", "望江塔建于", "江塔"),
        example("b", "d", "efghijk lmn", "ijk"),
        example("c", "d", "efghijk lmn"),
    )
    lengths = character_lengths(read)
    assert lengths.question == Spread(p50=1, p90=3, max=3)
    assert lengths.context == Spread(p50=5, p90=11, max=11)
    assert lengths.answer == Spread(p50=2, p90=3, max=3)
    assert lengths.whole == Spread(p50=12, p90=12, max=12)
    assert character_lengths(examples(example("a", "b", "c"))).answer is None


def test_an_answer_without_a_place_is_not_measured() -> None:
    item = Example("a", "w0", "w1 w2", (Answer("w2", None), Answer("w1 w2", 0)), False)
    other = Example("b", "w0", "w1 w2", (Answer("w2", None),), False)
    tokens = tokenised(examples(item, other), word_tokenizer(["w0 w1 w2"]))
    assert tokens.learned.tolist() == [True, False]
    assert np.array_equal(tokens.answer, [[0, 1], [-1, -1]])
