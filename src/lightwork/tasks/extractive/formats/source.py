"""One file -> its entries and questions, whatever its format and shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.formats.opened import OpenFile, opened
from lightwork.tasks.extractive.formats.place import Place
from lightwork.tasks.extractive.formats.shapes import (
    Document,
    Row,
    as_document,
    entry_kind,
    entry_rows,
)
from lightwork.tasks.extractive.formats.tables import PARQUET, csv_rows, parquet_rows, table_kind
from lightwork.tasks.extractive.formats.text import json_values

_SQUAD = ("1.0", "1.1", "2.0")
_TELL_EVERY = 256

Entry = tuple[Place, Any]


class Source:
    """The questions of one file in order, when iterated over.

    Raises ``DataError``, which names the first wrong place, while it is iterated over.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.shape = ""
        """What the file is, for people; known once its first entry was given."""
        self.share = 0.0
        """How much of the file was read, from 0 to 1."""
        self._answer_required = False

    def __iter__(self) -> Iterator[Row]:
        for place, entry in self.entries():
            yield from entry_rows(place, entry, answer_required=self._answer_required)

    def entries(self) -> Iterator[Entry]:
        """The articles or rows of the file as they stand there, each with its place."""
        with opened(self.file) as content:
            packing = ", gzip" if content.packed else ""
            for number, (place, entry) in enumerate(self._entries(content)):
                if not number:
                    self.shape += packing
                if number % _TELL_EVERY == 0:
                    self.share = max(self.share, content.share)
                yield place, entry
        self.share = 1.0

    def _entries(self, content: OpenFile) -> Iterator[Entry]:
        kind = table_kind(self.file)
        if content.first == PARQUET:
            self.shape = "Parquet rows"
            yield from parquet_rows(self.file, content)
        elif self.file.suffix == ".parquet":
            raise DataError(f"{self.file}: the name ends in .parquet, but the file is not Parquet")
        elif kind:
            self.shape = f"{kind[1:].upper()} rows"
            yield from csv_rows(self.file, content)
        else:
            yield from self._json(content)

    def _json(self, content: OpenFile) -> Iterator[Entry]:
        for number, value in json_values(self.file, content.stream):
            place = Place(self.file, f"line {number}" if number else "")
            document = None if number else as_document(place, value)
            if document is not None:
                yield from self._of_document(document)
                return
            self.shape = self.shape or _shape(value, "rows as JSON lines")
            yield place, value

    def _of_document(self, document: Document) -> Iterator[Entry]:
        self._answer_required = document.answer_required
        entries = document.entries
        if entries:
            self.shape = _shape(entries[0], "rows as JSON", document.version)
        for index, entry in enumerate(entries):
            self.share = index / len(entries)
            yield document.place.at(index), entry


def _shape(entry: Any, rows: str, version: str = "") -> str:
    """What a file is whose first entry is this one."""
    kind = entry_kind(entry)
    if kind == "article":
        name = f"SQuAD {version}" if version in _SQUAD else "SQuAD-like"
        return f"{name} (articles, paragraphs, qas)"
    return "raw CMRC 2018" if kind == "cmrc" else rows
