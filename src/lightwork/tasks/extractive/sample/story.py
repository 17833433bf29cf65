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
    """A way to tell some facts about a subject."""

    openings: Sequence[str]
    """First sentences; their only hole is ``scene``."""
    tales: Sequence[str]
    """A sentence or two about one subject."""
    questions: Questions
    blank: str
    """What stands between two sentences."""


def fill(sentence: str, facts: Facts) -> tuple[str, dict[str, int]]:
    """``sentence`` with its holes filled, and where each hole first starts (in code points)."""
    text = ""
    starts: dict[str, int] = {}
    for words, hole, _, _ in Formatter().parse(sentence):
        text += words
        if hole is not None:
            starts.setdefault(hole, len(text))
            text += facts[hole]
    return text, starts


def paragraph(
    draw: Draw, themes: Sequence[Theme], scene: str, cast: Sequence[Facts]
) -> dict[str, Any]:
    """A context with tales of two themes about each subject in ``cast``, and questions."""
    themes = draw.some(themes, 2)
    context = fill(draw.one(themes[0].openings), {"scene": scene})[0]
    questions = []
    for facts in cast:
        told: dict[str, int] = {}
        for theme in themes:
            context += theme.blank
            text, starts = fill(draw.one(theme.tales), facts)
            for hole, start in starts.items():
                told.setdefault(hole, len(context) + start)
            context += text
        for question, hole in _questions(draw, themes[0].questions, facts, told):
            answer = {"text": facts[hole], "answer_start": told[hole]}
            questions.append({"question": question, "answers": [answer]})
    return {"context": context, "qas": draw.some(questions, len(questions))}


def _questions(
    draw: Draw, questions: Questions, facts: Facts, told: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Four questions about one subject, each with the hole that answers it."""
    open_holes = [hole for hole in told if hole in questions.asked]
    holes = draw.some(open_holes, len(open_holes))
    chosen = [(draw.one(questions.asked[hole]), hole) for hole in holes[:3]]
    chosen.append((draw.one(questions.sought[holes[-1]]), "name"))
    return [(fill(question, facts)[0], hole) for question, hole in chosen]
