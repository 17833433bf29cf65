"""The length of windows, by how long questions and contexts are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightwork.planner.choices import percent
from lightwork.planner.windowing import MAX_LENGTHS, window_choices, window_options
from lightwork.settings.learning import DataSettings
from lightwork.tasks.extractive.windows import check_options
from tests.planner.made import lengths


@pytest.mark.parametrize(
    ("contexts", "max_length"),
    [
        ([20] * 100, 128),
        ([115] * 100, 128),  # with 10 of the question and 3 special tokens: just fits
        ([116] * 100, 192),
        ([100] * 95 + [5000] * 5, 128),
        ([100] * 94 + [5000] * 6, 512),  # most fit: worth the longest
        ([300] * 100, 320),
        ([480] * 80 + [5000] * 20, 512),
        ([5000] * 100, 384),
        ([400] * 70 + [5000] * 30, 384),
    ],
)
def test_the_shortest_that_holds_most(contexts: list[int], max_length: int) -> None:
    survey = lengths([10] * 100, contexts, [3] * 100)
    assert window_options(survey, None).max_length == max_length


def test_never_longer_than_the_model() -> None:
    survey = lengths([10] * 9, [2000] * 9, [3] * 9)
    for positions, expected in [(512, 384), (300, 256), (128, 128), (100, 100), (None, 384)]:
        options = window_options(survey, positions)
        assert options.max_length == expected
        check_options(survey.tokenizer, options)


def test_the_overlap_holds_long_answers() -> None:
    contexts = [2000] * 100
    assert window_options(lengths([10] * 100, contexts, [3] * 100), None).stride == 128
    assert window_options(lengths([10] * 100, contexts, [150] * 100), None).stride == 152
    assert window_options(lengths([10] * 100, contexts, [900] * 100), None).stride == 192


def test_questions_are_hardly_ever_cut() -> None:
    for longest, expected in [(20, 64), (64, 64), (65, 96), (120, 128), (400, 128)]:
        survey = lengths([10, longest], [300, 300], [3, 3])
        assert window_options(survey, None).max_question_length == expected
    # An estimate may be too low.
    survey = lengths([10, 60], [300, 300], [3, 3], exact=False)
    assert window_options(survey, None).max_question_length == 96


numbers = st.integers(1, 3000)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=20),
    st.one_of(st.none(), st.integers(16, 1024)),
)
def test_always_settings_that_work(rows: list[tuple[int, int, int]], positions: int | None) -> None:
    questions, contexts, answers = zip(*rows, strict=True)
    survey = lengths(questions, contexts, answers)
    options = window_options(survey, positions)
    check_options(survey.tokenizer, options)
    values = {choice.name: choice.value for choice in window_choices(survey, options, "")}
    DataSettings.model_validate(
        {"train": "x", **{name.partition(".")[2]: str(value) for name, value in values.items()}}
    )
    assert options.max_length <= max(MAX_LENGTHS)


def test_reasons_say_the_numbers() -> None:
    survey = lengths([10] * 99 + [200], [100] * 96 + [3000] * 4, [7] * 100)
    options = window_options(survey, None)
    length, stride, question = (choice.why for choice in window_choices(survey, options, ""))
    assert "96 % of the questions fit" in length
    assert "half have at most 113 tokens" in length
    assert "the longest has 3,203" in length
    assert "99 % of the answers have at most 7." in stride
    assert "The longest has 200; 1 % of the questions lose their last words." in question
    none = lengths([10], [3000], [7])
    assert "No question fits" in window_choices(none, options, "")[0].why
    everything = lengths([10], [30], [7])
    length, stride, question = (choice.why for choice in window_choices(everything, options, ""))
    assert "All questions fit" in length
    assert "only longer contexts" in stride
    assert question.endswith("The longest has 10.")


def test_percent_is_exact_at_both_ends() -> None:
    parts = [0, 0.001, 0.5, 0.994, 0.996, 1]
    said = ["0 %", "under 1 %", "50 %", "99 %", "over 99 %", "100 %"]
    assert [percent(part) for part in parts] == said
