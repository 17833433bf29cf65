"""How contexts are cut: the length of windows, their overlap, and the longest question."""

from __future__ import annotations

import math

from lightwork.planner.choices import Choice, percent
from lightwork.planner.survey import Survey
from lightwork.tasks.extractive.windows import WindowOptions

MAX_LENGTHS = (128, 192, 256, 320, 384, 512)
ONE_WINDOW = 0.95
"""Part of the questions that shall be one window with their context."""
LONG_CONTEXT_LENGTH = 384
"""For contexts that do not even fit in the longest of these windows: customary, and cheaper."""
QUESTION_LENGTHS = (64, 96, 128)
ESTIMATE_MARGIN = 1.25
SPECIAL_TOKENS = 4
"""The most special tokens that common models put in a window."""


def window_options(survey: Survey, positions: int | None) -> WindowOptions:
    """The shortest windows that hold most questions with their context, and their overlap.

    ``positions``: the longest window of the model, if it has one. The result always leaves room
    for the context, so that ``load_settings`` and ``check_options`` accept it.
    """
    max_length = _max_length(survey, positions)
    longest = survey.questions.longest * (1 if survey.exact else ESTIMATE_MARGIN)
    question = next((length for length in QUESTION_LENGTHS if length >= longest), 128)
    question = min(question, max_length // 2)
    room = max_length - question - max(survey.special_tokens, SPECIAL_TOKENS)
    answer = survey.answers.p99 if survey.answers else 0
    stride = max(max_length // 3 // 8 * 8, math.ceil(answer / 8) * 8)
    return WindowOptions(max_length, max(0, min(stride, max_length // 2, room - 1)), question)


def _max_length(survey: Survey, positions: int | None) -> int:
    lengths = [length for length in MAX_LENGTHS if positions is None or length <= positions]
    if not lengths:
        return max(positions or 0, 16)
    for length in lengths:
        if survey.fitting(length) >= ONE_WINDOW:
            return length
    if survey.fitting(lengths[-1]) >= 0.75:
        return lengths[-1]
    return [length for length in lengths if length <= LONG_CONTEXT_LENGTH][-1]


def window_choices(survey: Survey, options: WindowOptions, measured: str) -> list[Choice]:
    """``options`` as settings; ``measured`` says by which tokenizer."""
    return [
        Choice("data.max_length", options.max_length, _why_length(survey, options, measured)),
        Choice("data.stride", options.stride, _why_stride(survey, options)),
        Choice("data.max_question_length", options.max_question_length, _why(survey, options)),
    ]


def fit_text(fitting: float) -> str:
    """That this part of the questions is one window with their context."""
    if fitting == 1:
        return "all questions fit into one together with their context"
    if fitting == 0:
        return "no question fits into one together with its context"
    return f"{percent(fitting)} of the questions fit into one together with their context"


def _why_length(survey: Survey, options: WindowOptions, measured: str) -> str:
    fitting, whole = survey.fitting(options.max_length), survey.whole
    fit = fit_text(fitting)
    tail = "" if fitting == 1 else " Longer contexts are cut into several windows."
    return (
        f"Tokens of a window. {fit[:1].upper()}{fit[1:]}: half have at most "
        f"{whole.median:,} tokens, 90 % at most {whole.p90:,}, the longest has {whole.longest:,}"
        f"{measured}.{tail}"
    )


def _why_stride(survey: Survey, options: WindowOptions) -> str:
    if survey.fitting(options.max_length) == 1:
        return "Tokens that neighbouring windows share; only longer contexts than yours need it."
    why = "Tokens that neighbouring windows share, so that an answer cut by one is whole in another"
    if survey.answers is None:
        return f"{why}."
    return f"{why}: 99 % of the answers have at most {survey.answers.p99:,}."


def _why(survey: Survey, options: WindowOptions) -> str:
    why = f"Tokens after which a question is cut. The longest has {survey.questions.longest:,}"
    cut = survey.cut_questions(options.max_question_length)
    return f"{why}; {percent(cut)} of the questions lose their last words." if cut else f"{why}."
