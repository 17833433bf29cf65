"""What reading gives and windows take: questions with their contexts and gold answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

SHOWN = 5
"""How many ids a message or a list of affected ids shows; the total is always given as well."""


@dataclass(frozen=True)
class Answer:
    """A gold answer: ``context[start : start + len(text)] == text``, in code points.

    Without a place (``start`` None) it counts where answers are scored, and is never learned.
    """

    text: str
    start: int | None


@dataclass(frozen=True)
class Example:
    """One question; every string is exactly as it stands in the file."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    impossible: bool
    """Whether the context holds no answer. Only an empty list of gold answers says so."""
    unusable: str = ""
    """Why it cannot be trained on (a key of ``Examples.summary``), or nothing."""

    @property
    def learned(self) -> Answer | None:
        """The gold answer that is trained on: the first one with a place."""
        return next((answer for answer in self.answers if answer.start is not None), None)


@dataclass(frozen=True)
class Examples:
    """All questions in the order of the files, and what was noticed while reading them."""

    items: list[Example]
    summary: dict[str, int]
    listed: dict[str, list[str]]
    """The first ids behind a count of the summary."""

    @property
    def no_answer(self) -> bool:
        """Whether "no answer" can be learned: some usable question is impossible."""
        return any(example.impossible and not example.unusable for example in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.items)


@dataclass
class Tally:
    """Counts by kind, and the first ids of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, example_id: str) -> None:
        """Count ``kind`` once more; the first few ids are kept."""
        self.counts[kind] += 1
        ids = self.listed.setdefault(kind, [])
        if len(ids) < SHOWN and example_id not in ids:
            ids.append(example_id)


def shortlist(ids: list[str], total: int) -> str:
    """``a, b, c and 4 more``: at most a handful of ids and the number of the others."""
    shown = ", ".join(ids[:SHOWN])
    more = total - len(ids[:SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown
