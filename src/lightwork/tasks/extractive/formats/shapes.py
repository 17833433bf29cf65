"""From the values of a file to questions: articles, rows, and the raw shape of CMRC 2018."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.formats.other_tasks import refuse_other_task
from lightwork.tasks.extractive.formats.place import (
    Place,
    as_object,
    as_text,
    id_in,
    objects_in,
    text_in,
)
from lightwork.tasks.extractive.formats.text import parsed

MISSING = object()
"""An ``answer_start`` that is not there."""
_ENTRY = "an article with paragraphs or a row with id, question, context, answers"
_ALWAYS_ANSWERED = ("1.0", "1.1")


@dataclass(frozen=True)
class Cell:
    """A cell of a table that should hold JSON; it is looked at where answers are."""

    text: str

    def value(self, place: Place) -> Any:
        """What it holds; an empty cell stands for an empty list."""
        if not self.text.strip():
            return []
        try:
            return parsed(place.file, self.text)
        except DataError:
            expected = 'JSON such as {"text": ["…"], "answer_start": [0]}'
            raise place.wrong(expected, self.text) from None


@dataclass(slots=True)
class Row:
    """One question as its file gives it; starts and the flag are not yet checked."""

    id: str
    question: str
    context: str
    flag: Any
    answer_required: bool
    has_starts: bool
    """False where the shape of the file gives texts of answers and no places."""
    _place: Place = field(repr=False)
    _values: dict[str, Any] = field(repr=False)

    def answers(self) -> list[tuple[str, Any]]:
        """The gold texts, each with its start. A ``DataError`` where there are none to be read.

        Whoever has no use for gold answers does not call it, and may read unlabelled questions.
        """
        if self.has_starts:
            return list(_answers(self._place, self._values))
        return list(_bare_answers(self._place.at("answers"), self._values.get("answers")))


@dataclass
class Document:
    """The entries of one JSON document, and what it says about itself."""

    place: Place
    entries: list[Any]
    version: str = ""

    @property
    def answer_required(self) -> bool:
        """Whether the file calls itself SQuAD 1.x, where every question has an answer."""
        return self.version in _ALWAYS_ANSWERED


def as_document(place: Place, value: Any) -> Document | None:
    """The document ``{"data": list}`` or the bare list; None for a single article or row."""
    version = ""
    if isinstance(value, dict):
        if "data" not in value and entry_kind(value):
            return None
        if "data" not in value:
            refuse_other_task(place, value)
            raise place.wrong('an object with "data": questions with contexts and answers', value)
        version = str(value.get("version", ""))[:20].lower().removeprefix("v")
        place, value = place.at("data"), value["data"]
    if not isinstance(value, list):
        raise place.wrong("a list of articles or rows", value)
    return Document(place, value, version)


def entry_kind(entry: Any) -> str:
    """``article``, ``cmrc`` or ``row``; nothing for anything else."""
    if not isinstance(entry, dict):
        return ""
    if "paragraphs" in entry:
        return "article"
    if "context_text" in entry:
        return "cmrc"
    return "row" if "question" in entry or "context" in entry else ""


def entry_rows(place: Place, entry: Any, *, answer_required: bool = False) -> Iterator[Row]:
    """The questions of an article or a row, in order."""
    entry = as_object(place, entry, _ENTRY)
    kind = entry_kind(entry)
    if kind == "article":
        yield from _article(place, entry, answer_required)
    elif kind == "cmrc":
        yield from _raw_cmrc(place, entry)
    else:
        if "context" not in entry or "answers" not in entry:
            refuse_other_task(place, entry)
        if not kind:
            raise place.wrong(_ENTRY, entry)
        yield _row(place, entry, text_in(place, entry, "context"), answer_required)


def _article(place: Place, article: dict[str, Any], answer_required: bool) -> Iterator[Row]:
    for spot, paragraph in objects_in(place, article, "paragraphs", "context and qas"):
        context = text_in(spot, paragraph, "context")
        for where, qa in objects_in(spot, paragraph, "qas", "id, question, answers"):
            yield _row(where, qa, context, answer_required)


def _row(place: Place, row: dict[str, Any], context: str, answer_required: bool) -> Row:
    place.id = name = id_in(place, row, "id")
    question = text_in(place, row, "question")
    flag = row.get("is_impossible")
    return Row(name, question, context, flag, answer_required, True, place, row)


def _raw_cmrc(place: Place, article: dict[str, Any]) -> Iterator[Row]:
    """The original files of CMRC 2018: an article has one context, an answer is a text alone."""
    context = text_in(place, article, "context_text")
    for where, qa in objects_in(place, article, "qas", "query_id, query_text, answers"):
        where.id = name = id_in(where, qa, "query_id")
        question = text_in(where, qa, "query_text")
        yield Row(name, question, context, None, False, False, where, qa)


def _answers(place: Place, row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "answers" not in row:
        if row.get("is_impossible") is not True:
            raise place.wrong("an object with answers", row)
        return
    where = place.at("answers")
    answers = row["answers"]
    if isinstance(answers, Cell):
        answers = answers.value(where)
    if isinstance(answers, dict):
        answers = _joined(where, answers)
    if not isinstance(answers, list):
        raise where.wrong("a list of {text, answer_start}", answers)
    for index, entry in enumerate(answers):
        spot = where.at(index)
        answer = as_object(spot, entry, "an object with text and answer_start")
        yield text_in(spot, answer, "text"), answer.get("answer_start", MISSING)


def _joined(where: Place, answers: dict[str, Any]) -> list[dict[str, Any]]:
    """``{"text": [...], "answer_start": [...]}``, the columns of one row, as a list of answers."""
    texts = answers.get("text")
    if not isinstance(texts, list):
        raise where.at("text").wrong("a list of texts", texts)
    if "answer_start" not in answers:
        return [{"text": text} for text in texts]
    starts = answers["answer_start"]
    if not isinstance(starts, list):
        raise where.at("answer_start").wrong("a list of numbers", starts)
    if len(texts) != len(starts):
        raise where.problem(
            f"expected lists of equal length, found {len(texts)} text and "
            f"{len(starts)} answer_start"
        )
    return [
        {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
    ]


def _bare_answers(where: Place, answers: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(answers, list):
        raise where.wrong("a list of texts", answers)
    for index, text in enumerate(answers):
        yield as_text(where.at(index), text), MISSING
