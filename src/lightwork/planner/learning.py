"""How a model learns: batch, epochs, learning rate, by the number of windows and its size."""

from __future__ import annotations

import math

from lightwork.planner.choices import Choice
from lightwork.planner.machine import (
    DEFAULT_MICRO_BATCH_TOKENS,
    Machine,
    micro_batch_tokens,
)
from lightwork.planner.models import INSTEAD, ModelChoice
from lightwork.planner.survey import Survey
from lightwork.tasks.extractive.pretrained import SCRATCH

SCRATCH_UPDATES = 2000
"""Updates after which a small model from nothing has learned what it can of simple texts."""
LONG_EPOCH_STEPS = 1500
LONGEST_ANSWER_TOKENS = 300
DEFAULT_ANSWER_TOKENS = 30


def batch_size(windows: int, from_scratch: bool) -> int:
    """Windows behind one update: fewer of a small set, or there would be too few updates."""
    if windows >= (1000 if from_scratch else 10_000):
        return 32
    return 16 if windows >= (200 if from_scratch else 1000) else 8


def epochs(windows: int, batch: int, from_scratch: bool) -> int:
    """Passes over the windows: more over a small set."""
    if from_scratch:
        return min(max(math.ceil(SCRATCH_UPDATES * batch / windows), 3), 30)
    for least, passes in ((50_000, 2), (10_000, 3), (2000, 4), (500, 5)):
        if windows >= least:
            return passes
    return 8


def learning_choices(windows: int, batch: int, model: ModelChoice) -> list[Choice]:
    """The settings of ``train`` that decide what is learned."""
    from_scratch = model.kind == SCRATCH
    steps = math.ceil(windows / batch)
    passes = epochs(windows, batch, from_scratch)
    rate, size = _rate(model)
    choices = [
        Choice(
            "train.batch_size",
            batch,
            "Windows behind one update, over all ranks together. There are about "
            f"{windows:,} windows, so an epoch has {steps:,} updates.",
        ),
        Choice("train.learning_rate", rate, f"The highest rate: customary for {size}."),
        Choice(
            "train.epochs",
            passes,
            f"Passes over the windows: {steps * passes:,} updates in all. "
            "The best evaluation is kept, so a few too many do little harm.",
        ),
    ]
    if from_scratch:
        why = "Part of the updates in which the rate rises; a random start wants a gentle one."
        choices.append(Choice("train.warmup_ratio", 0.1, why))
    if steps >= LONG_EPOCH_STEPS:
        every = math.ceil(steps / 3 / 100) * 100
        why = "An epoch is long, so data.dev is scored about three times in each."
        choices.append(Choice("train.evaluate_every_steps", every, why))
    return choices


def _rate(model: ModelChoice) -> tuple[float, str]:
    if model.kind == SCRATCH:
        return 1e-3, "a small model that starts from nothing"
    if model.shape.width >= 1024:
        return 1e-5, "a large pretrained model; more makes some of them forget"
    if model.shape.width < 512:
        return 5e-5, "a small pretrained model"
    return 3e-5, "a pretrained model of base size"


def model_choices(model: ModelChoice, source: str, pieces: int) -> list[Choice]:
    """The settings of ``model``; ``source`` is its source as it shall be written."""
    if model.kind == SCRATCH:
        why = (
            "A small model that starts from nothing: no download, but it knows no language. Good "
            "for trying everything out. For real answers name a pretrained model instead: a hub "
            "name, a folder, or package:NAME/folder; then learning_rate 3e-5 and 3 epochs."
        )
        vocabulary = "Word pieces of its tokenizer: as many as so much text can teach."
        return [
            Choice("model.source", source, why),
            Choice("model.scratch_heads", model.shape.heads, "Its attention heads."),
            Choice("model.scratch_vocabulary", pieces, vocabulary),
        ]
    why = "The model you named."
    known = model.known
    if known is not None:
        why = (
            f"A place to start, not the last word: {known.what} ({known.licence}, {known.size}). "
            f"{INSTEAD[model.source]}."
        )
    why += (
        " Instead of it: another hub name with .safetensors weights, a folder, package:NAME/folder "
        "of an installed package, or scratch (no download, but it knows no language; then "
        "learning_rate 1e-3)."
    )
    return [Choice("model.source", source, why)]


def memory_choices(
    machine: Machine, model: ModelChoice, max_length: int, ranks: int
) -> list[Choice]:
    """What keeps a step within the memory, where the default might not or could be more."""
    tokens = micro_batch_tokens(machine, model.shape, max_length, ranks)
    if tokens == DEFAULT_MICRO_BATCH_TOKENS:
        return []
    where = "a GPU" if machine.gpus else "this machine"
    why = (
        f"Padded tokens that a rank sees at once, by a rough estimate of what {where} has room "
        "for. Less needs less memory; what is learned does not change."
    )
    return [Choice("train.micro_batch_tokens", tokens, why)]


def answer_choices(survey: Survey) -> list[Choice]:
    """A longer limit for answers where the default would make many unreachable."""
    if survey.answers is None or survey.answers.p99 <= DEFAULT_ANSWER_TOKENS:
        return []
    limit = min(math.ceil(survey.answers.p99 / 10) * 10, LONGEST_ANSWER_TOKENS)
    why = (
        f"Tokens of the longest answer that is looked for. Yours are long: half have at most "
        f"{survey.answers.median:,} tokens, 99 % at most {survey.answers.p99:,}."
    )
    return [Choice("evaluate.max_answer_tokens", limit, why)]
