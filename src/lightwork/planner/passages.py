"""Files of questions as raw passages, so that they can be written again with all they hold.

Reading proper is in ``tasks/extractive``; these files have passed it, so their shape is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightwork.tasks.extractive.formats.place import Place
from lightwork.tasks.extractive.formats.shapes import Cell, entry_kind
from lightwork.tasks.extractive.formats.source import Source
from lightwork.tasks.extractive.gold import only_place


@dataclass(frozen=True)
class Passage:
    """One context with its questions, as JSON objects."""

    article: str
    """Passages of one article have the same one, and stand together when they are written."""
    article_fields: dict[str, Any]
    """The article without its paragraphs."""
    fields: dict[str, Any]
    """The paragraph without its questions."""
    questions: list[dict[str, Any]]
    untitled: str
    """What stands for the title where there is none."""

    @property
    def document(self) -> str:
        """What it was taken from: its title, its untitled article, or nothing but itself."""
        title = str(self.article_fields.get("title") or "").strip()
        return f"title {title}" if title else self.untitled

    @property
    def context(self) -> str:
        """The text that the questions are about."""
        return str(self.fields["context"])


def read_passages(files: Sequence[Path]) -> list[Passage]:
    """All passages of ``files``, in order; flat rows with one context are one passage."""
    passages: list[Passage] = []
    rows: dict[tuple[str, str], Passage] = {}
    for number, file in enumerate(files):
        for index, (place, entry) in enumerate(Source(file).entries()):
            kind = entry_kind(entry)
            if kind == "article":
                passages.extend(_of_article(entry, f"article {number} {index}"))
            elif kind == "cmrc":
                passages.append(_of_cmrc(entry, f"article {number} {index}"))
            else:
                _add_row(_with_answers(place, entry), rows, passages)
    return passages


def _of_article(entry: dict[str, Any], article: str) -> Iterable[Passage]:
    about = {key: value for key, value in entry.items() if key != "paragraphs"}
    for paragraph in entry["paragraphs"]:
        fields = {key: value for key, value in paragraph.items() if key != "qas"}
        yield Passage(article, about, fields, list(paragraph["qas"]), article)


def _of_cmrc(entry: dict[str, Any], article: str) -> Passage:
    """An article of the raw CMRC 2018 shape, as it is: it holds one context."""
    about = {key: value for key, value in entry.items() if key not in ("context_text", "qas")}
    questions = [
        {
            "id": qa["query_id"],
            "question": qa["query_text"],
            "answers": [_placed(text, entry["context_text"]) for text in qa["answers"]],
        }
        for qa in entry["qas"]
    ]
    return Passage(article, about, {"context": entry["context_text"]}, questions, article)


def _placed(text: str, context: str) -> dict[str, Any]:
    """An answer of which only the text is known; without a start where that is ambiguous."""
    place = only_place(text, context)
    return {"text": text} if place is None else {"text": text, "answer_start": place}


def _with_answers(place: Place, row: dict[str, Any]) -> dict[str, Any]:
    """A row whose answers are no longer the text of a cell."""
    answers = row.get("answers")
    return {**row, "answers": answers.value(place)} if isinstance(answers, Cell) else row


def _add_row(
    row: dict[str, Any], rows: dict[tuple[str, str], Passage], passages: list[Passage]
) -> None:
    """Put a flat row into its passage, which is a new one for a new title or context."""
    title, context = row.get("title"), row["context"]
    key = (json.dumps(title), context)
    if key not in rows:
        about = {"title": title or ""}
        rows[key] = Passage(f"row {key[0]}", about, {"context": context}, [], f"context {context}")
        passages.append(rows[key])
    question = {name: value for name, value in row.items() if name not in ("title", "context")}
    question["answers"] = _listed(row.get("answers", []))
    rows[key].questions.append(question)


def _listed(answers: Any) -> Any:
    """Answers in columns, ``{"text": [...], "answer_start": [...]}``, as the list SQuAD has."""
    if not isinstance(answers, dict):
        return answers
    columns = {name: values for name, values in answers.items() if isinstance(values, list)}
    count = len(columns["text"])
    whole = {name: values for name, values in columns.items() if len(values) == count}
    return [{name: values[index] for name, values in whole.items()} for index in range(count)]


def to_squad(passages: Sequence[Passage]) -> bytes:
    """``passages`` as a SQuAD document: 2.0 where a question says or shows that it may be
    impossible, otherwise 1.1.
    """
    articles: dict[Any, dict[str, Any]] = {}
    for passage in passages:
        article = articles.setdefault(passage.article, {**passage.article_fields, "paragraphs": []})
        article["paragraphs"].append({**passage.fields, "qas": passage.questions})
    may_be_impossible = any(
        "is_impossible" in question or not question.get("answers")
        for passage in passages
        for question in passage.questions
    )
    version = "v2.0" if may_be_impossible else "1.1"
    document = {"version": version, "data": list(articles.values())}
    try:
        return json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair in a field that nobody reads
        return json.dumps(document).encode()
