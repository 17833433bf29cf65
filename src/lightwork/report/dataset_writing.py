"""A set of questions as one SQuAD file without anything odd, for training here or elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightwork.disk import replacing
from lightwork.errors import DataError, RunError
from lightwork.tasks.extractive.examples import Example, Examples, noted


@dataclass(frozen=True)
class Written:
    """What went into a file, and what was left out of it."""

    file: str
    version: str
    questions: int
    answers: int
    left_out_unusable_questions: int
    """With a blank question or context, or with blank gold answers only."""
    left_out_unplaced_questions: int
    """With gold answers of which none has a place; never written as impossible."""
    left_out_unplaced_answers: int
    """Of questions that have another one with a place."""
    stripped_questions: int
    """Written without the blanks around them, which training does not see either."""

    @property
    def left_out_any(self) -> bool:
        """Whether scores on this file would be others than those on what was read."""
        return bool(
            self.left_out_unusable_questions
            or self.left_out_unplaced_questions
            or self.left_out_unplaced_answers
        )


def write_squad(target: Path, read: Examples) -> Written:
    """Write ``read`` to ``target``, which is whole or as it was before.

    Every distinct context is an article of its own, in the order in which they come first: so
    nobody takes the contexts for parts of one text. Titles are not kept. The version is 2.0 when a
    question is impossible, else 1.1. Raises ``DataError`` when no question is left, ``RunError``
    when the file cannot be written.
    """
    counts: Counter[str] = Counter()
    contexts: dict[str, list[dict[str, Any]]] = {}
    for item in read:
        why = _left_out(item)
        if why:
            counts[why] += 1
            continue
        question = _question(item, counts)
        contexts.setdefault(item.context, []).append(question)
    questions = [question for some in contexts.values() for question in some]
    if not questions:
        raise DataError(
            f"--write: none of {noted(len(read), 'questions')} can be written: "
            f"{counts['unusable']:,} with something blank, {counts['unplaced']:,} with no answer "
            "that has a place"
        )
    document = _document(contexts)
    _write(target, json.dumps(document, ensure_ascii=False).encode())
    return Written(
        file=str(target),
        version=document["version"],
        questions=len(questions),
        answers=sum(len(question["answers"]) for question in questions),
        left_out_unusable_questions=counts["unusable"],
        left_out_unplaced_questions=counts["unplaced"],
        left_out_unplaced_answers=counts["unplaced_answers"],
        stripped_questions=counts["stripped"],
    )


def _document(contexts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Context -> its questions, as a SQuAD document; 1.1 knows no ``is_impossible``."""
    questions = [question for some in contexts.values() for question in some]
    version = "v2.0" if any(question["is_impossible"] for question in questions) else "1.1"
    if version == "1.1":
        for question in questions:
            del question["is_impossible"]
    data = [
        {"title": "", "paragraphs": [{"context": context, "qas": some}]}
        for context, some in contexts.items()
    ]
    return {"version": version, "data": data}


def _left_out(item: Example) -> str:
    """Why a question is not written; nothing where it is."""
    if item.answers and item.learned is None:
        return "unplaced"
    return "unusable" if item.unusable else ""


def _question(item: Example, counts: Counter[str]) -> dict[str, Any]:
    answers = [
        {"text": answer.text, "answer_start": answer.start}
        for answer in item.answers
        if answer.start is not None
    ]
    counts["unplaced_answers"] += len(item.answers) - len(answers)
    question = item.question.strip()
    counts["stripped"] += question != item.question
    return {
        "id": item.id,
        "question": question,
        "answers": answers,
        "is_impossible": item.impossible,
    }


def _write(target: Path, content: bytes) -> None:
    try:
        with replacing(target) as new:
            new.write_bytes(content)
    except OSError as error:
        raise RunError(f"--write: {target} cannot be written: {error.strerror or error}") from None
