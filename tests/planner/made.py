"""Data of every shape, and surveys of made-up lengths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightwork.planner.models import BASE, ModelChoice, ModelShape
from lightwork.planner.survey import Survey
from lightwork.tasks.extractive.examples import Example, Examples
from lightwork.tasks.extractive.reading import read_examples
from tests.tasks.made import examples, qa, word_tokenizer

SCRATCH_MODEL = ModelChoice("scratch", "scratch", ModelShape(2, 128, 4, 1_500_000, None), None)
BASE_MODEL = ModelChoice("google-bert/bert-base-uncased", "download", BASE, None)


def article(title: str | None, *paragraphs: tuple[str, int], **more: Any) -> dict[str, Any]:
    """An article with paragraphs ``(context, number of questions)``; ids tell where they stand."""
    made = []
    for number, (context, count) in enumerate(paragraphs):
        first = context.split()[0]
        qas = [
            qa(f"{title}-{number}-{i}", [{"text": first, "answer_start": context.index(first)}])
            for i in range(count)
        ]
        made.append({"context": context, "qas": qas})
    about = {} if title is None else {"title": title}
    return {**about, **more, "paragraphs": made}


def by_id(*files: Path) -> dict[str, Example]:
    """What the reader makes of these files."""
    return {example.id: example for example in read_examples(files)}


def lengths(
    questions: Sequence[int], contexts: Sequence[int], answers: Sequence[int], exact: bool = True
) -> Survey:
    """A survey that has measured these numbers of tokens; three special tokens."""
    empty = Examples([], {}, {})
    survey = Survey(empty, word_tokenizer(["a"]), exact)
    survey.__dict__["_lengths"] = tuple(np.array(row) for row in (questions, contexts, answers))
    return survey


def sample_of(*items: Example) -> Examples:
    """Examples as the reader gives them."""
    return examples(*items)
