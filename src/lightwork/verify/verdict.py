"""A row of the table, and how all ranks come to the same one.

Nothing is decided by one rank alone. What may fail on one of them (reading the store, a forward)
runs inside :func:`gathered`, which every rank leaves together, with the same answers or the same
exception; messages are sent outside of it, or by what fails on all ranks alike.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from lightwork.comm.group import Group
from lightwork.errors import LightworkError

SHOWN = 5
"""Names or numbers that are listed before an ellipsis."""


@dataclass(frozen=True)
class Verdict:
    """What was checked and what came of it, on every rank alike."""

    row: str
    passed: bool | None
    """None: not checked, and ``found`` says why."""
    found: str
    """What was measured, in words and numbers."""


class RowFailedError(Exception):
    """What all ranks found out together about why a row fails; ``str(error)`` says it."""


def one_rank(row: str) -> Verdict:
    """For what needs several ranks where there is one."""
    return Verdict(row, None, "not checked: one rank")


def gathered(group: Group, measure: Callable[[], Any]) -> list[Any]:
    """What ``measure`` gives on every rank, as JSON, in rank order.

    A rank on which it raises takes part as well, so that no other waits for it. ``measure`` may
    send messages itself only where it cannot fail between them on one rank alone.

    Raises:
        RowFailedError: on all ranks together, where it raised on any; names the ranks.
        LightworkError: one that is not joint, such as PeerLostError: nobody is left to ask.
    """
    value, problem = None, None
    try:
        value = measure()
    except Exception as error:
        if isinstance(error, LightworkError) and not error.joint:
            raise
        problem = _described(error)
    told = group.gather_json({"value": value, "problem": problem})
    problems = {rank: entry["problem"] for rank, entry in enumerate(told) if entry["problem"]}
    if problems:
        same = len(problems) == group.size and len(set(problems.values())) == 1
        lines = [text if same else f"rank {rank}: {text}" for rank, text in problems.items()]
        raise RowFailedError(lines[0] if same else "; ".join(lines))
    return [entry["value"] for entry in told]


def decide(group: Group, row: str, check: Callable[[], Verdict]) -> Verdict:
    """The verdict of ``check`` on all ranks; what raises, or fails on one of them, is a failure."""
    try:
        told = [Verdict(*values) for values in gathered(group, lambda: list(astuple(check())))]
    except RowFailedError as error:
        return Verdict(row, False, str(error))
    return next((verdict for verdict in told if verdict.passed is False), told[0])


def listed(names: list[Any]) -> str:
    """The first few, and how many there are in all where some are left out."""
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown} … ({len(names):,} in all)"


def counted(count: int, noun: str) -> str:
    """``1 rank``, ``2 ranks``, ``1,000 batches``."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def _described(error: Exception) -> str:
    if isinstance(error, (RowFailedError, LightworkError)):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}, line {frame.lineno})"
