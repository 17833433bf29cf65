"""From files of questions to everything that ``lightwork init`` writes and says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from lightwork.errors import SettingsError
from lightwork.planner.choices import Choice
from lightwork.planner.machine import Machine
from lightwork.planner.models import ModelChoice, advise, examine
from lightwork.planner.proposal import Proposal, propose
from lightwork.planner.settings_text import settings_text, written_path
from lightwork.planner.split import Split, split_questions
from lightwork.planner.survey import (
    STAND_IN_PIECES,
    Survey,
    draw_sample,
    scratch_pieces,
    survey,
)
from lightwork.planner.wish import Wish
from lightwork.settings.paths import resolve_source
from lightwork.tasks.extractive.examples import Examples
from lightwork.tasks.extractive.languages import language_mix
from lightwork.tasks.extractive.pretrained import SCRATCH
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.tokenizer import load_tokenizer


@dataclass(frozen=True)
class FirstSettings:
    """Settings to begin with, what they were made from, and the files to write."""

    examples: Examples
    dev: Examples | None
    languages: dict[str, float]
    split: Split | None
    survey: Survey
    model: ModelChoice
    proposal: Proposal
    contents: dict[Path, bytes]


def first_settings(wish: Wish, machine: Machine) -> FirstSettings:
    """Read, split, measure and decide; nothing is written.

    Raises DataError for data that cannot be trained on, and SettingsError for a model that cannot
    be one.
    """
    _refuse_training_file_as_dev(wish)
    examples = read_examples(wish.train, on_mismatch="repair")
    dev = None if wish.dev is None else read_examples([wish.dev], on_mismatch="drop")
    split = split_questions(wish.train) if wish.dev is None else None
    sample = draw_sample(examples)
    languages = language_mix(sample)
    model = examine(advise(languages) if wish.model is None else resolve_source(wish.model, None))
    measured = _measure(sample, model)
    questions = len(examples) if split is None else split.train_questions
    proposal = propose(measured, questions, model, _source_text(wish, model), machine)
    choices = [
        *_data_choices(wish, dev, split, questions),
        *_mismatch_choice(examples),
        *proposal.choices,
    ]
    text = settings_text(_head(wish, examples), choices)
    contents = {wish.target: text.encode()}
    if split is not None:
        train_file, dev_file = wish.split_files
        contents = {train_file: split.train, dev_file: split.dev, **contents}
    return FirstSettings(examples, dev, languages, split, measured, model, proposal, contents)


def _refuse_training_file_as_dev(wish: Wish) -> None:
    if wish.dev is not None and any(file.samefile(wish.dev) for file in wish.train):
        raise SettingsError(
            f"--dev {wish.dev_given} is a training file too, so its scores would say nothing; name "
            "other questions, or leave out --dev and a tenth of these is held out"
        )


def _measure(sample: Examples, model: ModelChoice) -> Survey:
    if model.kind == SCRATCH:
        return survey(sample, None, scratch_pieces(sample))
    if model.tokenizer_folder is None:
        return survey(sample, None, STAND_IN_PIECES)
    try:
        return survey(sample, load_tokenizer(str(model.tokenizer_folder)))
    except SettingsError:
        if model.kind == "local":
            raise
        return survey(sample, None, STAND_IN_PIECES)  # a part of a hub model in the cache


def _source_text(wish: Wish, model: ModelChoice) -> str:
    """``model.source`` as it is written: folders like files, all else as it is."""
    if model.kind != "local" or wish.model is None or wish.model.startswith("package:"):
        return model.source
    text = written_path(wish.model, Path(model.source), wish.target.absolute().parent)
    return text if text.startswith(("/", "~", "..")) else f"./{text}"


def _data_choices(
    wish: Wish, dev: Examples | None, split: Split | None, questions: int
) -> list[Choice]:
    folder = wish.target.absolute().parent
    if split is not None:
        train_file, dev_file = (
            written_path("", path.absolute(), folder) for path in wish.split_files
        )
        names = " and ".join(path.name for path in wish.train)
        train_why = f"{questions:,} questions: {names} without the held-out ones."
        dev_why = (
            f"{split.dev_questions:,} questions about {split.dev_groups:,} other {split.by}s, held "
            "out: they are scored during training, and the best model is kept."
        )
        return [Choice("data.train", train_file, train_why), Choice("data.dev", dev_file, dev_why)]
    texts = tuple(
        written_path(given, path, folder)
        for given, path in zip(wish.train_given, wish.train, strict=True)
    )
    assert wish.dev is not None
    assert dev is not None
    return [
        Choice(
            "data.train",
            texts[0] if len(texts) == 1 else texts,
            f"{questions:,} questions to learn from.",
        ),
        Choice(
            "data.dev",
            written_path(wish.dev_given, wish.dev, folder),
            f"{len(dev):,} questions that are scored during training; the best model is kept.",
        ),
    ]


_WITHOUT_PLACE = ("misplaced_answers", "ambiguous_answers", "unlocated_answers")


def _mismatch_choice(examples: Examples) -> list[Choice]:
    """To repair, where training would stop otherwise."""
    repaired = examples.summary.get("repaired_answers", 0)
    lost = sum(examples.summary.get(kind, 0) for kind in _WITHOUT_PLACE)
    if not repaired and not lost:
        return []
    why = (
        f"{repaired + lost:,} answers are not at their answer_start: {repaired:,} get the only "
        f"place where their text stands, {lost:,} are not learned. Without this, training stops."
    )
    return [Choice("data.on_mismatch", "repair", why)]


def _head(wish: Wish, examples: Examples) -> list[str]:
    names = " and ".join(path.name for path in wish.train)
    return [
        f"Proposed by `lightwork init` from {names}: {len(examples):,} questions about "
        f"{examples.summary['contexts']:,} contexts.",
        "Everything is a place to start. Change it here, or for one run on the command line:",
        f"  lightwork train {shlex.quote(str(wish.target))} train.epochs=3",
    ]
