"""From sentences with holes to a paragraph with questions whose answers know their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from lightwork.tasks.extractive.sample.draw import Draw

Facts = Mapping[str, str]
"""What is told about one subject: the name of a hole -> its words; ``name`` is the subject."""


@dataclass(frozen=True)
class Questions:
    """What can be asked about one kind of subject, in one language."""

    asked: Mapping[str, Sequence[str]]
    """Hole -> questions that know the ``name`` and ask for what stands in the hole."""
    sought: Mapping[str, Sequence[str]]
    """Hole -> questions that know what stands in the hole and ask for the ``name``."""


@dataclass(frozen=True)
class Theme:
    """A way to tell of several subjects: each gets the same kinds of facts."""

    openings: Sequence[str]
    """First sentences; their only hole is ``scene``."""
    tales: Sequence[str]
    """A sentence or two about one subject."""
    questions: Questions
    blank: str
    """What stands between two sentences."""


def fill(sentence: str, facts: Facts) -> tuple[str, dict[str, int]]:
    """``sentence`` with its holes filled, and where each hole first starts (in code points)."""
    text, starts = "", {}
    for words, hole, _, _ in Formatter().parse(sentence):
        text += words
        if hole is not None:
            starts.setdefault(hole, len(text))
            text += facts[hole]
    return text, starts


def paragraph(draw: Draw, theme: Theme, scene: str, cast: Sequence[Facts]) -> dict[str, Any]:
    """A context that tells of every subject in ``cast``, and two questions about each."""
    context = fill(draw.one(theme.openings), {"scene": scene})[0]
    tales = draw.some(theme.tales, len(theme.tales))
    questions = []
    for place, facts in enumerate(cast):
        context += theme.blank
        text, starts = fill(tales[place % len(tales)], facts)
        for question, hole in _questions(draw, theme.questions, facts, starts):
            answer = {"text": facts[hole], "answer_start": len(context) + starts[hole]}
            questions.append({"question": question, "answers": [answer]})
        context += text
    return {"context": context, "qas": draw.some(questions, len(questions))}


def _questions(
    draw: Draw, questions: Questions, facts: Facts, told: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Two questions about one subject, each with the hole that answers it."""
    holes = draw.some([hole for hole in told if hole in questions.asked], 2)
    chosen = [(draw.one(questions.asked[hole]), hole) for hole in holes]
    if draw.below(2):
        chosen[1] = (draw.one(questions.sought[holes[1]]), "name")
    return [(fill(question, facts)[0], hole) for question, hole in chosen]
