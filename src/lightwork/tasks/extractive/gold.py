"""Does every gold answer stand where its file says it does? Offsets are code points."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import SHOWN


@dataclass(frozen=True)
class Misplaced:
    """A gold answer that is not at its ``answer_start``; ``kind`` is one of the classes below.

    ``no_start``: missing, null, -1, or not a whole number. ``out_of_range``: no such position in
    the context. ``absent``: the text is nowhere in the context. ``shifted_unique`` and
    ``shifted_ambiguous``: it stands elsewhere, once or more often.
    """

    id: str
    kind: str
    text: str
    given: Any
    context: str

    @property
    def hint(self) -> str:
        """The likely cause, when one explains the mismatch exactly."""
        start = whole_number(self.given)
        if start is not None and start >= 0:
            for unit, codec, width in (("UTF-8 byte", "utf-8", 1), ("UTF-16", "utf-16-le", 2)):
                if self.context.encode(codec)[width * start :].startswith(self.text.encode(codec)):
                    return f"{start} is right as a {unit} offset"
        if self.kind == "absent" and _folded(self.text) in _folded(self.context):
            return "it is there in another Unicode form (composed, full-width)"
        if self.kind == "absent" and self.text.lower() in self.context.lower():
            return "it is there in another letter case"
        return ""

    def __str__(self) -> str:
        start = whole_number(self.given)
        if start is None or start < 0:
            found = f"answer_start is {self.given!r}"
        else:
            found = f"at {start} stands {self.context[start : start + len(self.text)][:40]!r}"
        place = ""
        if self.context.count(self.text) == 1:
            place = f"; the text is at {self.context.find(self.text)}"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.id} ({self.kind}): {found}, not {self.text[:40]!r}{place}{hint}"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def whole_number(value: Any) -> int | None:
    """``answer_start`` as a number: 20, 20.0 and "20" are the same, all else is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    return None


def classify(text: str, given: Any, context: str) -> str:
    """The class of a gold answer; nothing when it stands at its place."""
    start = whole_number(given)
    if start is None or start == -1:
        return "no_start"
    if start >= 0 and context.startswith(text, start):
        return ""
    if start < 0 or start >= len(context):
        return "out_of_range"
    first = context.find(text)
    if first < 0:
        return "absent"
    return "shifted_unique" if context.find(text, first + 1) < 0 else "shifted_ambiguous"


@dataclass
class GoldCheck:
    """Collects the misplaced answers of one file and stops with all of them at its end."""

    file: Path
    answers: int = 0
    misplaced: list[Misplaced] = field(default_factory=list)

    def holds(self, example_id: str, text: str, given: Any, context: str) -> bool:
        """Whether the answer stands at its place; otherwise it is remembered."""
        self.answers += 1
        kind = classify(text, given, context)
        if kind:
            self.misplaced.append(Misplaced(example_id, kind, text, given, context))
        return not kind

    def finish(self) -> None:
        """Raise a ``DataError`` when any answer was misplaced."""
        if not self.misplaced:
            return
        kinds = Counter(item.kind for item in self.misplaced)
        counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
        lines = [f"  {item}" for item in self.misplaced[:SHOWN]]
        more = len(self.misplaced) - SHOWN
        if more > 0:
            lines.append(f"  and {more:,} more")
        raise DataError(
            f"{self.file}: {len(self.misplaced):,} of {self.answers:,} gold answers are not found "
            f"at their answer_start ({counts}):\n"
            + "\n".join(lines)
            + "\nanswer_start counts Unicode code points from 0; correct these answers in the file"
        )
