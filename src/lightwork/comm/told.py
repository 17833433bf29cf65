"""Who tells a person about an error when N ranks fail: exactly one voice.

A joint error happens on every rank alike, so rank 0 shows it. A lonely one is shown by the rank it
happened on. Under the supervisor a rank also leaves its message in the file that ``LIGHTWORK_TOLD``
names, so that the supervisor can speak for a rank whose own words went to a log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Told:
    """What a rank said before it ended."""

    message: str
    joint: bool
    shown: bool
    """Whether the person has seen it."""
    repeats: bool
    """Whether a new attempt would end alike."""


def tell(
    message: str, environ: Mapping[str, str], joint: bool = True, repeats: bool = True
) -> None:
    """Say why this rank is about to end, at most once to the person over all ranks.

    The rank must then write nothing more and exit with the error's ``exit_code``.
    """
    rank = environ.get("RANK", "0")
    first = rank == "0" or not rank.isdecimal()  # a rank that does not know its number speaks
    path = environ.get("LIGHTWORK_TOLD")
    shown = (first and joint) if path else (first or not joint)
    if shown or (path and not first):  # the latter goes to the rank's log
        sys.stderr.write(message.rstrip() + "\n")
        sys.stderr.flush()
    if path:
        partial = Path(path + ".partial")
        record = {"message": message, "joint": joint, "shown": shown, "repeats": repeats}
        partial.write_text(json.dumps(record), encoding="utf-8")
        partial.rename(path)


def read_told(path: Path) -> Told | None:
    """What a rank left at ``path``; None if it ended without a word."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Told(**record)
