"""What windows a set of questions gives, and how much of a batch of them is padding.

They are cut as for training, but from lengths alone: no window is built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightwork.data.plan import EpochPlan, padding_waste
from lightwork.report.dataset_tokens import Tokenised
from lightwork.tasks.extractive.cutting import cut_contexts, with_labels
from lightwork.tasks.extractive.examples import SHOWN
from lightwork.tasks.extractive.windows import WindowOptions

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Batching:
    """How windows become batches, for the count of padding."""

    batch_windows: int
    micro_batch_tokens: int
    seed: int


@dataclass(frozen=True)
class WindowFacts:
    """What cutting all usable questions gives; shares are from 0 to 1."""

    max_length_tokens: int
    stride_tokens: int
    max_question_length_tokens: int
    batch_windows: int
    windows: int
    windows_per_question: float
    one_window_share: float
    """Of the questions."""
    trained_windows: int
    """All, where "no answer" is learned; otherwise those with the whole answer."""
    cut_questions: int
    """Longer than ``max_question_length_tokens``."""
    cut_answers: int
    """Whole in no window."""
    cut_answers_ids: tuple[str, ...]
    """The first such questions."""
    cut_answers_share: float
    padding_to_max_length_share: float
    """Of the tokens of a batch, when every window is padded to ``max_length_tokens``."""
    padding_planned_share: float
    """The same when windows of like length are batched, and padded to the longest beside them."""


def window_facts(tokens: Tokenised, options: WindowOptions, batching: Batching) -> WindowFacts:
    """Cut the windows of ``options``, which ``check_options`` has accepted, and count."""
    used = np.flatnonzero(tokens.usable)
    question = np.minimum(tokens.question, options.max_question_length)
    windows = cut_contexts(
        used,
        np.arange(len(question)),
        tokens.context,
        question,
        space=options.max_length - tokens.special_tokens,
        stride=options.stride,
    )
    windows = with_labels(windows, tokens.answer)
    count = np.bincount(windows.example, minlength=len(question))[used]
    answered = np.bincount(windows.example[windows.labelled], minlength=len(question))[used]
    cut = used[tokens.learned[used] & (answered == 0)]
    trained = windows if tokens.no_answer else windows.only(windows.labelled)
    lengths = trained.question_length + trained.length + tokens.special_tokens
    return WindowFacts(
        max_length_tokens=options.max_length,
        stride_tokens=options.stride,
        max_question_length_tokens=options.max_question_length,
        batch_windows=batching.batch_windows,
        windows=len(windows.example),
        windows_per_question=len(windows.example) / max(len(used), 1),
        one_window_share=int((count == 1).sum()) / max(len(used), 1),
        trained_windows=len(lengths),
        cut_questions=int((tokens.question[used] > options.max_question_length).sum()),
        cut_answers=len(cut),
        cut_answers_ids=tuple(tokens.ids[row] for row in cut[:SHOWN]),
        cut_answers_share=len(cut) / max(int(tokens.learned.sum()), 1),
        padding_to_max_length_share=_padding(lengths, options.max_length),
        padding_planned_share=_planned_padding(lengths, batching),
    )


def _padding(lengths: Ints, padded: int) -> float:
    return 1 - int(lengths.sum()) / (padded * len(lengths)) if len(lengths) else 0.0


def _planned_padding(lengths: Ints, batching: Batching) -> float:
    if not len(lengths):
        return 0.0
    plan = EpochPlan(batching.seed, 0, lengths, batching.batch_windows)
    return padding_waste(lengths, 1, 1, plan, batching.micro_batch_tokens)
