"""Files of questions as raw passages, so that they can be written again with all they hold.

Reading proper is in ``tasks/extractive``; these files have passed it, so their shape is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        for index, entry in enumerate(_entries(file.read_bytes().decode("utf-8-sig"))):
            if "paragraphs" in entry:
                passages.extend(_of_article(entry, f"article {number} {index}"))
            else:
                _add_row(entry, rows, passages)
    return passages


def _entries(text: str) -> list[dict[str, Any]]:
    """The articles or rows of a file in any of the shapes that can be read."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    if isinstance(document, dict) and "data" not in document:
        return [document]
    entries: list[dict[str, Any]] = document["data"] if isinstance(document, dict) else document
    return entries


def _of_article(entry: dict[str, Any], article: str) -> Iterable[Passage]:
    about = {key: value for key, value in entry.items() if key != "paragraphs"}
    for paragraph in entry["paragraphs"]:
        fields = {key: value for key, value in paragraph.items() if key != "qas"}
        yield Passage(article, about, fields, list(paragraph["qas"]), article)


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
