"""Does every gold answer stand where its file says it does? Offsets are code points."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import SHOWN, Answer, Tally, shown
from lightwork.tasks.extractive.formats.shapes import MISSING, Row

OnMismatch = Literal["stop", "repair", "drop"]

_WHOLE_NUMBER = re.compile(r"\s*(-?\d{1,18})(?:\.0+)?\s*")
"""As pandas writes a column of numbers with gaps: 20.0."""

CLASSES = {
    "ok": "at the answer_start given",
    "shifted_unique": "elsewhere, at one place only",
    "shifted_ambiguous": "elsewhere, at several places",
    "absent": "nowhere in the context",
    "out_of_range": "with an answer_start outside the context",
    "no_start": "without an answer_start, or with one that is -1 or not a whole number",
    "located": "without offsets, at one place only",
    "ambiguous": "without offsets, at several places",
    "unlocated": "without offsets, nowhere in the context",
}
"""Where the gold answers of each class stand; the last three are those of raw CMRC 2018."""


@dataclass(frozen=True)
class Misplaced:
    """A gold answer that is not where it should be; ``kind`` is one of ``CLASSES``."""

    id: str
    kind: str
    text: str
    given: Any
    context: str

    @property
    def hint(self) -> str:
        """The likely cause, when one explains the mismatch exactly."""
        start = whole_number(self.given)
        if start is not None and 0 <= start <= 4 * len(self.context):
            for unit, codec, width in (("UTF-8 byte", "utf-8", 1), ("UTF-16", "utf-16-le", 2)):
                if self.context.encode(codec)[width * start :].startswith(self.text.encode(codec)):
                    return f"{start} is right as a {unit} offset"
        if self.kind not in ("absent", "unlocated"):
            return ""
        if _composed(self.text) in _composed(self.context):
            return "it is there in another Unicode form (composed, full-width)"
        if self.text.casefold() in self.context.casefold():
            return "it is there in another letter case"
        return ""

    def __str__(self) -> str:
        start = whole_number(self.given)
        text = repr(shown(self.text))
        if self.kind == "unlocated":
            found = f"the context does not hold {text}"
        elif start is None or start < 0:
            found = f"answer_start is {_as_written(self.given)}, for {text}"
        else:
            there = shown(self.context[start : start + min(len(self.text), 100)])
            found = f"at {_as_written(start)} stands {there!r}, not {text}"
        only = only_place(self.text, self.context)
        place = "" if only is None else f"; the text is at {only}"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{shown(self.id)} ({self.kind}): {found}{place}{hint}"


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _as_written(given: Any) -> str:
    if given is MISSING:
        return "missing"
    try:
        return shown(json.dumps(given, ensure_ascii=False))
    except (TypeError, ValueError):
        return f"of type {type(given).__name__}"


def whole_number(value: Any) -> int | None:
    """``answer_start`` as a number: 20, 20.0, "20" and "20.0" are the same, all else is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (written := _WHOLE_NUMBER.fullmatch(value)):
        return int(written[1])
    return None


def only_place(text: str, context: str) -> int | None:
    """Where ``text`` stands if that is one place; places that overlap are two, as "aa" in "aaa"."""
    first = context.find(text)
    return first if first >= 0 and context.find(text, first + 1) < 0 else None


def classify(text: str, given: Any, context: str) -> str:
    """The class of a gold answer with an offset; nothing when it stands at its place."""
    start = whole_number(given)
    if start is None or start == -1:
        return "no_start"
    if start >= 0 and context.startswith(text, start):
        return ""
    if start < 0 or start >= len(context):
        return "out_of_range"
    if text not in context:
        return "absent"
    return "shifted_ambiguous" if only_place(text, context) is None else "shifted_unique"


@dataclass
class GoldCheck:
    """Gives the answers of one file their places, and keeps what is to be told about them."""

    file: Path
    on_mismatch: OnMismatch
    tally: Tally
    classes: Counter[str] = field(default_factory=Counter)
    misplaced: list[Misplaced] = field(default_factory=list)
    """The first few."""
    unreadable: list[str] = field(default_factory=list)
    """The first few answers of a shape that cannot be read."""
    unreadable_total: int = 0

    def golds(self, row: Row) -> list[tuple[str, Any]]:
        """The texts and starts of ``row``; none, for now, where they cannot be read."""
        try:
            return row.answers()
        except DataError as error:
            self.unreadable_total += 1
            if len(self.unreadable) < SHOWN:
                self.unreadable.append(str(error))
            return []

    def answer(self, row: Row, text: str, given: Any) -> Answer:
        """The gold answer, with the place that the file or the rule of ``on_mismatch`` gives it."""
        if not row.has_starts:
            return self._without_offset(row, text)
        kind = classify(text, given, row.context)
        self.classes[kind or "ok"] += 1
        if not kind:
            if not isinstance(given, int):
                self.tally.note("odd_starts", row.id)
            return Answer(text, whole_number(given))
        self._keep(Misplaced(row.id, kind, text, given, row.context))
        start = only_place(text, row.context) if self.on_mismatch == "repair" else None
        if start is not None:
            self.tally.note("repaired_answers", row.id)
            return Answer(text, start)
        self.tally.note("misplaced_answers", row.id)
        return Answer(text, None)

    def _without_offset(self, row: Row, text: str) -> Answer:
        start = only_place(text, row.context)
        if start is not None:
            self.classes["located"] += 1
            return Answer(text, start)
        kind = "ambiguous" if text in row.context else "unlocated"
        self.classes[kind] += 1
        self.tally.note(f"{kind}_answers", row.id)
        if kind == "unlocated":
            self._keep(Misplaced(row.id, kind, text, MISSING, row.context))
        return Answer(text, None)

    def _keep(self, misplaced: Misplaced) -> None:
        if len(self.misplaced) < SHOWN:
            self.misplaced.append(misplaced)

    def finish(self) -> None:
        """Raise a ``DataError`` with all that stops the run, the first few of each kind named."""
        told = []
        if self.unreadable_total == 1:
            told += self.unreadable
        elif self.unreadable:
            total = self.unreadable_total
            lines = [line.removeprefix(f"{self.file}: ") for line in self.unreadable]
            head = f"{self.file}: {total:,} questions have no answers that can be read:"
            told.append(_listing(head, lines, total))
        wrong = Counter({kind: self.classes[kind] for kind in _MISPLACED if self.classes[kind]})
        if self.on_mismatch == "stop" and wrong:
            told.append(self._mismatch(wrong))
        if told:
            raise DataError("\n".join(told))

    def _mismatch(self, wrong: Counter[str]) -> str:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(wrong.items()))
        head = (
            f"{self.file}: {wrong.total():,} of {self.classes.total():,} gold answers are not "
            f"found at their answer_start ({counts}):"
        )
        listing = _listing(head, list(map(str, self.misplaced)), wrong.total())
        return (
            f"{listing}\nanswer_start counts Unicode code points from 0. Correct these answers in "
            "the file, or set data.on_mismatch=repair, which moves an answer to the only place "
            "where its text stands, or data.on_mismatch=drop, which trains without them"
        )


_MISPLACED = ("shifted_unique", "shifted_ambiguous", "absent", "out_of_range", "no_start")


def _listing(head: str, lines: list[str], total: int) -> str:
    more = [f"  and {total - len(lines):,} more"] if total > len(lines) else []
    return "\n".join([head, *(f"  {line}" for line in lines), *more])
