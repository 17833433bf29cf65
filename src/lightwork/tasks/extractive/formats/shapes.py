"""The one seam between files and examples: from bytes on disk to rows of one shape.

Read are SQuAD 1.1 and 2.0 (articles > paragraphs > qas), ``{"data": [flat rows]}``, JSON lines of
flat rows, and a bare list in the place of ``{"data": list}``. Text is UTF-8 with or without a
byte-order mark and is never changed: no newline translation, no normalisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightwork.errors import DataError

NO_ANSWERS_KEY = object()


@dataclass(frozen=True)
class _Place:
    """Where in which file we are, so that a wrong shape can be told in one line."""

    file: Path
    path: str = ""
    id: str = ""

    def at(self, step: str | int) -> _Place:
        if isinstance(step, int):
            return _Place(self.file, f"{self.path}[{step}]", self.id)
        return _Place(self.file, f"{self.path}.{step}" if self.path else step, self.id)

    def wrong(self, expected: str, found: Any) -> DataError:
        where = f"at {self.path}" if self.path else "at the top"
        where += f" (id {self.id})" if self.id else ""
        return DataError(f"{self.file}: {where}: expected {expected}, found {_describe(found)}")


@dataclass(frozen=True)
class Row:
    """One question as its file gives it; starts and the flag are not yet checked."""

    id: str
    question: str
    context: str
    flag: Any
    answer_required: bool
    _place: _Place = field(repr=False)
    _values: dict[str, Any] = field(repr=False)

    def answers(self) -> list[tuple[str, Any]]:
        """The gold texts, each with its start. A ``DataError`` where there are none to be read.

        Whoever has no use for gold answers does not call it, and may read unlabelled questions.
        """
        return list(_answers(self._place, self._values))


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        keys = ", ".join(str(key) for key in list(value)[:6])
        return f"an object with {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return f"the number {value}"


def read_rows(file: Path) -> Iterator[Row]:
    """Every question of ``file``, in order; a ``DataError`` names the first wrong place."""
    text = _decode(file)
    if not text.strip():
        raise DataError(f"{file}: the file is empty; expected questions as JSON or JSON lines")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        first_value = text[: error.pos].strip()
        if error.msg == "Extra data" and "\n" not in first_value:
            yield from _json_lines(file, text)
            return
        raise _broken(file, error, error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: not JSON that can be read: {error}") from None
    yield from _document(_Place(file), document)


def _decode(file: Path) -> str:
    data = file.read_bytes()
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        guess = " (it begins like UTF-16)" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise DataError(
            f"{file}: not valid UTF-8 at byte {error.start}{guess}; save the file as UTF-8"
        ) from None


def _broken(file: Path, error: json.JSONDecodeError, line: int) -> DataError:
    cut = "; the file seems to be cut off" if not error.doc[error.pos :].strip() else ""
    cut = cut or ("; the file seems to be cut off" if "Unterminated" in error.msg else "")
    return DataError(f"{file}: line {line}, column {error.colno}: not JSON ({error.msg}){cut}")


def _json_lines(file: Path, text: str) -> Iterator[Row]:
    # Only \n ends a line: str.splitlines would also cut at U+2028 inside a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise _broken(file, error, number) from None
        place = _Place(file, f"line {number}")
        yield _flat_row(place, _object(place, value, "an object with id, question, context"))


def _document(place: _Place, document: Any) -> Iterator[Row]:
    if isinstance(document, dict) and "data" not in document and "question" in document:
        yield _flat_row(place, document)
        return
    version = ""
    if isinstance(document, dict) and "data" in document:
        version = str(document.get("version", "")).lower().removeprefix("v")
        place, document = place.at("data"), document["data"]
    elif isinstance(document, dict):
        raise place.wrong('an object with "data"', document)
    if not isinstance(document, list):
        raise place.wrong("a list of articles or rows", document)
    for index, entry in enumerate(document):
        yield from _entry(place.at(index), entry, answer_required=version in ("1.0", "1.1"))


def _entry(place: _Place, entry: Any, *, answer_required: bool) -> Iterator[Row]:
    expected = "an article with paragraphs or a row with id, question, context, answers"
    entry = _object(place, entry, expected)
    if "paragraphs" in entry:
        yield from _article(place, entry, answer_required)
    elif "context_text" in entry:
        raise DataError(
            f"{place.file}: at {place.path}: this is the raw CMRC 2018 shape (context_text, "
            "query_id), which is not read; take the squad-style file of the same release"
        )
    elif "question" in entry or "context" in entry:
        yield _flat_row(place, entry)
    else:
        raise place.wrong(expected, entry)


def _article(place: _Place, article: dict[str, Any], answer_required: bool) -> Iterator[Row]:
    for spot, paragraph in _objects(place, article, "paragraphs", "context and qas"):
        context = _text(spot, paragraph, "context")
        for where, qa in _objects(spot, paragraph, "qas", "id, question, answers"):
            yield _row(where, qa, context, answer_required)


def _flat_row(place: _Place, row: dict[str, Any]) -> Row:
    return _row(place, row, _text(place, row, "context"), answer_required=False)


def _row(place: _Place, row: dict[str, Any], context: str, answer_required: bool) -> Row:
    place = _Place(place.file, place.path, _id(place, row))
    return Row(
        id=place.id,
        question=_text(place, row, "question"),
        context=context,
        flag=row.get("is_impossible"),
        answer_required=answer_required,
        _place=place,
        _values=row,
    )


def _answers(place: _Place, row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    where = place.at("answers")
    answers = row.get("answers", NO_ANSWERS_KEY)
    if answers is NO_ANSWERS_KEY:
        if row.get("is_impossible") is not True:
            raise place.wrong("an object with answers", row)
        return
    if isinstance(answers, dict):
        answers = _joined(where, answers)
    if not isinstance(answers, list):
        raise where.wrong("a list of {text, answer_start}", answers)
    for index, entry in enumerate(answers):
        spot = where.at(index)
        answer = _object(spot, entry, "an object with text and answer_start")
        yield _text(spot, answer, "text"), answer.get("answer_start")


def _joined(where: _Place, answers: dict[str, Any]) -> list[dict[str, Any]]:
    """``{"text": [...], "answer_start": [...]}``, the columns of one row, as a list of answers."""
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not isinstance(texts, list):
        raise where.at("text").wrong("a list of texts", texts)
    if not isinstance(starts, list):
        raise where.at("answer_start").wrong("a list of numbers", starts)
    if len(texts) != len(starts):
        raise DataError(
            f"{where.file}: at {where.path}: expected lists of equal length, found "
            f"{len(texts)} text and {len(starts)} answer_start"
        )
    return [
        {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
    ]


def _object(place: _Place, value: Any, expected: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise place.wrong(expected, value)
    return value


def _objects(
    place: _Place, parent: dict[str, Any], key: str, keys: str
) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """The objects of the list ``parent[key]``, each with its place."""
    if key not in parent:
        raise place.wrong(f"an object with {key}", parent)
    if not isinstance(parent[key], list):
        raise place.at(key).wrong("a list", parent[key])
    for index, value in enumerate(parent[key]):
        spot = place.at(key).at(index)
        yield spot, _object(spot, value, f"an object with {keys}")


def _text(place: _Place, parent: dict[str, Any], key: str) -> str:
    if key not in parent:
        raise place.wrong(f"an object with {key}", parent)
    value = parent[key]
    if not isinstance(value, str):
        raise place.at(key).wrong("a text", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place.file}: at {place.at(key).path}: character {error.start} is half of a "
            "surrogate pair, which is not text"
        ) from None
    return value


def _id(place: _Place, row: dict[str, Any]) -> str:
    value = row.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    name = _text(place, row, "id")
    if not name.strip():
        raise place.at("id").wrong("an id", name)
    return name
