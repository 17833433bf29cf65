"""What is in files of questions, counted from what reading gave; no model and no run is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightwork.tasks.extractive.examples import NOTES, SHOWN, Example, Examples
from lightwork.tasks.extractive.languages import language_shares

REPEATED_IDS = "renamed_ids"
"""The count of a summary that stops training, where ids are not numbered."""

WITHOUT_OFFSETS = ("located", "ambiguous", "unlocated")
"""Classes of answers that have no ``answer_start`` by the shape of their file."""

_PLAIN = ("examples", "contexts", "answers", "impossible")
"""Counts of a summary that are no oddities."""


@dataclass(frozen=True)
class Noticed:
    """How many questions have something in common, and the first ids."""

    count: int
    ids: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class SetFacts:
    """What stands in one set of files."""

    files: tuple[str, ...]
    shapes: tuple[str, ...]
    """Of each file, in the same order."""
    languages: dict[str, float]
    """Shares of the questions, largest first, as scoring would decide."""
    questions: int
    distinct_contexts: int
    gold_answers: int
    questions_with_answer: int
    questions_impossible: int
    questions_trainable: int
    """With an answer that has a place, or impossible; with nothing blank."""
    answers_by_class: dict[str, int]
    """By the classes of ``tasks/extractive/gold.py``."""
    misplaced: tuple[str, ...]
    """The first misplaced answers in words, each with the likely cause."""
    noticed: dict[str, Noticed]
    repeated_questions: Noticed
    """Questions that stand earlier with the same context, whatever their ids."""

    @property
    def misplaced_answers(self) -> int:
        """Gold answers that are not at their ``answer_start``."""
        right = ("ok", *WITHOUT_OFFSETS)
        return sum(count for name, count in self.answers_by_class.items() if name not in right)


@dataclass(frozen=True)
class Overlap:
    """What of the held-out questions is trained on as well: the same text, but for outer blanks."""

    questions: int
    shared_questions: int
    """Those with the same question about the same context."""
    contexts: int
    shared_contexts: int
    ids: tuple[str, ...]
    """The first held-out questions whose context is trained on too."""


@dataclass(frozen=True)
class Mending:
    """What becomes of the misplaced answers of a set with ``data.on_mismatch`` repair."""

    mended_answers: int
    dropped_answers: int


def set_facts(files: Sequence[Path], read: Examples) -> SetFacts:
    """Count what is in ``read``, which came from ``files``."""
    summary = read.summary
    impossible = sum(trained_as_impossible(item) for item in read)
    return SetFacts(
        files=tuple(map(str, files)),
        shapes=read.shapes,
        languages=language_shares(read),
        questions=len(read),
        distinct_contexts=summary["contexts"],
        gold_answers=sum(read.classes.values()),
        questions_with_answer=len(read) - summary["impossible"],
        questions_impossible=summary["impossible"],
        questions_trainable=impossible + sum(is_learned(item) for item in read),
        answers_by_class=dict(read.classes),
        misplaced=read.misplaced,
        noticed={
            name: Noticed(count, tuple(read.listed.get(name, ())), NOTES[name])
            for name, count in summary.items()
            if count and name not in _PLAIN
        },
        repeated_questions=_repeated(read),
    )


def is_learned(item: Example) -> bool:
    """Whether training learns where its answer stands."""
    return not item.unusable and item.learned is not None


def trained_as_impossible(item: Example) -> bool:
    """Whether training learns that it has no answer."""
    return not item.unusable and item.impossible


def overlap(train: Iterable[Example], dev: Examples) -> Overlap:
    """How much of ``dev`` is in ``train``."""
    contexts, questions = {""}, set()
    for item in train:
        contexts.add(item.context.strip())
        questions.add(_asked(item))
    contexts.remove("")  # a blank context is no text that was seen
    shared = [item for item in dev if item.context.strip() in contexts]
    return Overlap(
        questions=len(dev),
        shared_questions=sum(_asked(item) in questions for item in shared),
        contexts=len({item.context.strip() for item in dev}),
        shared_contexts=len({item.context.strip() for item in shared}),
        ids=tuple(item.id for item in shared[:SHOWN]),
    )


def _repeated(read: Examples) -> Noticed:
    seen: Counter[tuple[str, str]] = Counter()
    ids: list[str] = []
    count = 0
    for item in read:
        asked = _asked(item)
        if seen[asked]:
            count += 1
            ids.append(item.id)
        seen[asked] += 1
    return Noticed(count, tuple(ids[:SHOWN]), "questions asked earlier about the same context")


def _asked(item: Example) -> tuple[str, str]:
    return item.question.strip(), item.context.strip()
