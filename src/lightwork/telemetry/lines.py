"""Files of JSON lines, written and read back; a kill may have left half a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

EVALUATIONS = "evaluations.jsonl"
"""In the folder of a run: one line for every evaluation, kept over restarts."""

RESTARTS = "restarts.jsonl"
"""In the folder of a run: one line for every start of the command, every failure and every end."""

METRIC = "f1"
"""The score of an evaluation that tells which checkpoint is best."""

HEADLINE = ("exact_match", METRIC, "total", "HasAns_f1", "NoAns_f1", "no_answer_threshold")
"""The scores a line shows; files hold all of them."""

Scores = dict[str, "float | int"]


def open_lines(path: Path) -> IO[bytes]:
    """The file, to append whole lines to, unbuffered; half a line at its end stays by itself."""
    file: IO[bytes] = path.open("a+b", buffering=0)
    end = file.seek(0, 2)
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file


def json_lines(path: Path, last_bytes: int | None = None) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines, in order; no file has none.

    ``last_bytes``: only the whole lines within so many bytes before the end, so that a file of any
    size is read in the same time. What is no object of JSON, such as half a line, is left out.
    """
    try:
        with path.open("rb") as file:
            first = max(0, file.seek(0, 2) - last_bytes) if last_bytes is not None else 0
            # From one byte earlier on, the first piece is never a whole line, only what ends there.
            file.seek(max(0, first - 1))
            lines = file.read().split(b"\n")[1 if first else 0 :]
    except FileNotFoundError:
        return []
    return [entry for line in lines if (entry := _object(line)) is not None]


def each_line(path: Path) -> Iterator[dict[str, Any]]:
    """Like :func:`json_lines` of all of a file, and never more than one of them in memory."""
    try:
        with path.open("rb") as file:
            for line in file:
                if (entry := _object(line)) is not None:
                    yield entry
    except FileNotFoundError:
        return


def read_evaluations(run: Path) -> dict[int, Scores]:
    """Step -> scores of all evaluations in the folder of a run; the last line of a step counts."""
    found = {}
    for entry in json_lines(run / EVALUATIONS):
        step = entry.pop("step", None)
        if isinstance(step, int):
            found[step] = {
                name: value for name, value in entry.items() if isinstance(value, (int, float))
            }
    return found


def since_best(scores: Sequence[float]) -> int:
    """Evaluations after the first one with the best score; none without scores."""
    return len(scores) - 1 - list(scores).index(max(scores)) if scores else 0


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
