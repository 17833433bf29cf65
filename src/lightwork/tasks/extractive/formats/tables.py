"""CSV, TSV and Parquet: one question a row.

Columns: ``id``, ``question``, ``context``, and either ``answers`` (a struct or a JSON text of
``{"text": [...], "answer_start": [...]}`` or of a list of ``{"text", "answer_start"}``) or
``answer_text`` and ``answer_start`` for at most one answer. ``is_impossible`` may be there; other
columns are not looked at. An empty cell for the answers, or for the text and the start of the one
answer, is a question without an answer. CSV and TSV are quoted as in RFC 4180 and begin with a
line of column names; a cell is never changed, and never taken for a number or for nothing.

CSV needs no package: readers made for numbers take ``001`` for 1 and ``None`` or ``NA`` for an
empty cell. Parquet needs pyarrow, which comes with datasets.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import shown
from lightwork.tasks.extractive.formats.opened import OpenFile, decoded
from lightwork.tasks.extractive.formats.other_tasks import refuse_other_task
from lightwork.tasks.extractive.formats.place import Place
from lightwork.tasks.extractive.formats.shapes import Cell
from lightwork.tasks.extractive.formats.text import other_format

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET = b"PAR1"
"""The first four bytes of a Parquet file."""
COLUMNS = ("id", "question", "context", "answers", "answer_text", "answer_start", "is_impossible")
_EXPECTED = "columns id, question, context and answers (or answer_text and answer_start)"
_BATCH_ROWS = 1000

Entry = tuple[Place, dict[str, Any]]


def table_kind(file: Path) -> str:
    """``.csv`` or ``.tsv``, also before ``.gz``; nothing for any other name."""
    name = file.with_suffix("") if file.suffix == ".gz" else file
    return name.suffix.lower() if name.suffix.lower() in DELIMITERS else ""


def csv_rows(file: Path, content: OpenFile) -> Iterator[Entry]:
    """The rows of a CSV or TSV file; a row's place is the line it ends on."""
    text = decoded(file, content.stream.read())
    if not text.strip():
        raise DataError(f"{file}: the file is empty; expected a line of column names")
    numbered = _csv_lines(file, text, DELIMITERS[table_kind(file)])
    header_line, header = numbered[0]
    _check_columns(Place(file, f"line {header_line}"), header)
    for number, cells in numbered[1:]:
        place = Place(file, f"line {number}")
        if len(cells) != len(header):
            raise place.problem(f"expected {len(header)} cells, found {len(cells)}")
        yield place, _row(_csv_values(dict(zip(header, cells, strict=True))))


def _csv_lines(file: Path, text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    usual = csv.field_size_limit(sys.maxsize)  # a context may be longer than the usual 131,072
    try:
        return [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise DataError(
            f"{file}: line {reader.line_num}: not {table_kind(file)[1:].upper()} as in RFC 4180 "
            f"({error})"
        ) from None
    finally:
        csv.field_size_limit(usual)


def _csv_values(cells: dict[str, str]) -> dict[str, Any]:
    """Cells as the values they stand for: CSV knows text only."""
    row: dict[str, Any] = dict(cells)
    start = cells.get("answer_start", "").strip()
    if start.isascii() and start.removeprefix("-").isdecimal() and len(start) < 20:
        row["answer_start"] = int(start)
    flag = cells.get("is_impossible", "")
    row["is_impossible"] = {"": None, "true": True, "false": False}.get(flag.lower(), flag)
    return row


def parquet_rows(file: Path, content: OpenFile) -> Iterator[Entry]:
    """The rows of a Parquet file, some at a time; the first one is ``row 1``."""
    try:
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError:
        raise DataError(
            f"{file}: reading Parquet needs packages that are not installed; "
            "install them with: pip install 'lightwork[tables]'"
        ) from None
    source = io.BytesIO(content.stream.read()) if content.packed else content.stream
    try:
        with parquet.ParquetFile(source) as table:
            names = list(table.schema_arrow.names)
            _check_columns(Place(file), names)
            number = 0
            wanted = [name for name in COLUMNS if name in names]
            for batch in table.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    place = Place(file, f"row {number}")
                    yield place, _row(row)
    except (arrow.ArrowException, OSError, ValueError) as error:
        told = shown(str(error), 200)
        raise DataError(f"{file}: not a Parquet file that can be read ({told})") from None


def _check_columns(place: Place, names: list[str]) -> None:
    columns = dict.fromkeys(names)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise place.problem(f"the column {shown(repeated[0])!r} stands twice")
    missing = {"id", "question", "context"} - columns.keys()
    if missing or "answers" not in columns:
        refuse_other_task(place, columns)
    if missing:
        found = ", ".join(shown(name) for name in names[:8])
        hint = other_format("".join(names[:1]))
        raise place.problem(f"expected {_EXPECTED}, found {found}{hint}")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its answers in one of the shapes that JSON has."""
    if isinstance(row.get("answers"), str):
        row["answers"] = Cell(row["answers"])
    elif "answers" not in row and "answer_text" in row:
        text, start = row["answer_text"], row.get("answer_start")
        empty = text in (None, "") and start in (None, "")
        row["answers"] = [] if empty else [{"text": text, "answer_start": start}]
    return row
