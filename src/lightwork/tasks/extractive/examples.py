"""What reading gives and windows take: questions with their contexts and gold answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

_PLURAL = re.compile(r"(?<=\w)s\b")

SHOWN = 5
"""How many ids a message or a list of affected ids shows; the total is always given as well."""

NOTES = {
    "examples": "questions",
    "contexts": "different contexts",
    "answers": "gold answers",
    "impossible": "questions without an answer in the context",
    "flag_conflicts": "questions whose is_impossible contradicts the answers (the answers count)",
    "blank_contexts": "questions with a blank context (not trained on, answered with nothing)",
    "blank_questions": "blank questions (not trained on, answered from the context alone)",
    "questions_with_outer_blanks": "questions with outer blanks (tokenised without them)",
    "blank_answers": "blank gold answers (not counted)",
    "odd_starts": "answer_start values written as text or with a point (the whole number counts)",
    "misplaced_answers": "gold answers not at the answer_start given (scored, not learned)",
    "repaired_answers": "gold answers moved to the only place where the text stands",
    "ambiguous_answers": (
        "gold answers without an offset whose text stands more than once (scored, not learned)"
    ),
    "unlocated_answers": (
        "gold answers without an offset whose text stands nowhere (scored, not learned)"
    ),
    "unplaced_questions": "questions of which no gold answer has a place (scored, not learned)",
    "renamed_ids": "ids that an earlier question has too (numbered id-2, id-3 and so on)",
    "unusable_examples": "questions without a window (blank, or no answer has a place)",
    "cut_questions": "questions longer than data.max_question_length (cut)",
    "off_border_answers": "answers beginning or ending inside a token (learned with all of it)",
    "cut_answers": "questions whose answer is whole in no window",
    "no_answer_windows": "windows without the answer (learned as no answer)",
    "windows_without_answer": "windows without the answer (left out)",
}
"""What a count of reading, or of cutting windows, counts; ``noted`` puts the number before it."""


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
    """Counts; ``NOTES`` says of what."""
    listed: dict[str, list[str]]
    """The first ids behind a count of the summary."""
    shapes: tuple[str, ...] = ()
    """What each file is, for people; nothing for a file that was not needed."""
    classes: dict[str, int] = field(default_factory=dict)
    """How many gold answers are in each of ``gold.CLASSES``; those with none are not there."""
    misplaced: tuple[str, ...] = ()
    """The first gold answers that are not where they should be, a line each."""

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


def noted(count: int, phrase: str) -> str:
    """``1 blank question`` or ``1,234 blank questions``; ``phrase`` is in the plural.

    The first word that ends in s is its noun; what comes after it must suit one and many.
    """
    if count == 1:
        phrase = _PLURAL.sub("", phrase, count=1)
    return f"{count:,} {phrase}"


def shortlist(ids: list[str], total: int) -> str:
    """``a, b, c and 4 more``: at most a handful of ids and the number of the others."""
    names = ", ".join(map(shown, ids[:SHOWN]))
    more = total - len(ids[:SHOWN])
    return f"{names} and {more:,} more" if more > 0 else names


def shown(text: str, most: int = 40) -> str:
    """The beginning of ``text``, without line ends and signs that steer a terminal."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut if cut.isprintable() else "".join(map(_visible, cut))


def _visible(sign: str) -> str:
    return sign if sign.isprintable() else ascii(sign)[1:-1]
