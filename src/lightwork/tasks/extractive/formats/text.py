"""JSON and JSON lines: from text to values. JSON lines are read line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import shown
from lightwork.tasks.extractive.formats.json_places import (
    deep_value,
    long_number,
    place_in,
    repeated_key,
)
from lightwork.tasks.extractive.formats.opened import decoded


class _RepeatedKeyError(ValueError):
    """A key stands twice in one object: its first value would be lost."""


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _RepeatedKeyError
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_each_key_once)


def parsed(file: Path, text: str, line: int = 0) -> Any:
    """The JSON value ``text``, which is line ``line`` of the file, or all of it.

    Raises ``DataError`` with the line and column of what is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        at_end = not error.doc[error.pos :].strip() or "Unterminated" in error.msg
        hint = "; the file seems to be cut off" if at_end else "" if line else other_format(text)
        where = f"line {line or error.lineno}, column {error.colno}"
        raise DataError(f"{file}: {where}: not JSON ({error.msg}){hint}") from None
    except _RepeatedKeyError:
        key, offset = repeated_key(text)
        told = f"the key {shown(key)!r} stands twice in one object, again"
    except ValueError:
        told, offset = "not JSON that can be read: a number has too many digits,", long_number(text)
    except RecursionError:
        told = "not JSON that can be read: lists or objects are nested too deeply,"
        offset = deep_value(text)
    where = f"line {line}: " if line else ""
    raise DataError(f"{file}: {where}{told}{place_in(text, offset, line)}")


def other_format(text: str) -> str:
    """What ``text`` seems to be instead of data, and what to do; nothing where that is unclear."""
    begin = text.lstrip()[:1000]
    first_line = begin.partition("\n")[0]
    for delimiter, ending in (("\t", ".tsv"), (",", ".csv")):
        names = {name.strip().strip('"') for name in first_line.split(delimiter)}
        if {"question", "context"} <= names:
            return f"; it begins like a table: give it a name that ends in {ending}"
    if begin.startswith("version https://git-lfs"):
        return "; it is a pointer of Git LFS: fetch the file itself with git lfs pull"
    if begin.startswith("<"):
        return "; it begins like a web page (HTML): fetch the file itself"
    return "; it holds zero bytes, as UTF-16 does: save it as UTF-8" if "\0" in begin else ""


def json_values(file: Path, stream: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """Line number and value of every line; line number 0 where the file is one document.

    A file is JSON lines when its first line is a whole value and more follows. Only ``\\n`` ends
    a line: U+2028 and the like may stand inside a text.
    """
    lines = _lines(file, stream)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{file}: the file is empty; expected questions as JSON or JSON lines")
    number, text = first
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        before = stream.tell()
        rest = decoded(file, stream.read(), before)
        yield 0, parsed(file, "\n" * (number - 1) + text + rest)
        return
    second = next(lines, None)
    yield (number if second else 0), value
    for number, text in chain([second] if second else [], lines):
        yield number, parsed(file, text, number)


def _lines(file: Path, stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not blank."""
    before = 0
    for number, line in enumerate(stream, start=1):
        text = decoded(file, line, before)
        before += len(line)
        if text.strip():
            yield number, text
