"""Settings to begin with, each with its reason, from what is in the data and the machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightwork.planner.choices import Choice
from lightwork.planner.learning import (
    answer_choices,
    batch_size,
    learning_choices,
    memory_choices,
    model_choices,
)
from lightwork.planner.machine import Machine, choose_ranks
from lightwork.planner.models import ModelChoice
from lightwork.planner.survey import Survey, WindowCount
from lightwork.planner.windowing import window_choices, window_options
from lightwork.tasks.extractive.pretrained import SCRATCH


@dataclass(frozen=True)
class Proposal:
    """The settings besides the data files, and what they come to."""

    choices: tuple[Choice, ...]
    windows: int
    """Windows to train on, estimated from the sample."""
    ranks: int
    ranks_why: str
    counted: WindowCount

    def number(self, name: str) -> int:
        """The proposed value of ``section.key``, which is a whole number."""
        return next(
            choice.value
            for choice in self.choices
            if choice.name == name and isinstance(choice.value, int)
        )

    @property
    def updates(self) -> int:
        """Optimizer updates of the whole training."""
        steps = math.ceil(self.windows / self.number("train.batch_size"))
        return steps * self.number("train.epochs")


def propose(
    survey: Survey, questions: int, model: ModelChoice, source: str, machine: Machine
) -> Proposal:
    """Settings for training ``model`` on ``questions`` questions like those of the survey.

    ``source`` is the model's source as it shall be written. Raises DataError when the sample gives
    no window to train on.
    """
    options = window_options(survey, model.shape.positions)
    counted = survey.count_windows(options)
    windows = max(1, round(counted.per_question * questions))
    batch = batch_size(windows, model.kind == SCRATCH)
    ranks, ranks_why = choose_ranks(machine, model.shape, batch)
    choices = [
        *window_choices(survey, options, measured_by(survey, model)),
        *model_choices(model, source, survey.pieces),
        *learning_choices(windows, batch, model),
        *memory_choices(machine, model, options.max_length, ranks),
        *answer_choices(survey),
    ]
    return Proposal(tuple(choices), windows, ranks, ranks_why, counted)


def measured_by(survey: Survey, model: ModelChoice) -> str:
    """In brackets, how exact token counts are; empty where they are the model's own."""
    if survey.exact:
        return ""
    if model.kind == SCRATCH:
        return " (by a tokenizer trained on a part of the texts; training makes one from all)"
    return (
        " (estimated by a tokenizer trained on a part of the texts, since the model's own is not "
        "on this machine: only about right)"
    )
