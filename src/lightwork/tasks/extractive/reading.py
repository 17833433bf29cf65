"""Files of questions -> checked examples. Nothing is dropped, repaired or guessed in silence.

The rules, one each; what they touch is counted in ``Examples.summary`` with the first ids:

* ``impossible``: only an empty list of gold answers makes a question impossible, as in the
  official SQuAD 2.0 scoring. A file that calls itself version 1.0 or 1.1 may not have any.
* ``flag_conflicts``: ``is_impossible`` says something else than the answers, or is not a boolean;
  the answers win. Plausible answers are never gold answers.
* ``blank_contexts``: no windows; the prediction is "".
* ``blank_questions``: not trained on; predicted from the context alone.
* ``blank_answers``: a blank gold text is no gold answer; a question left without any because of
  that is scored as impossible, but not trained on.
* ``questions_with_outer_blanks``: they are kept here and stripped before tokenising.
* ``odd_starts``: an ``answer_start`` of 20.0 or "20" is read as 20.
* ``misplaced_answers``: not at their ``answer_start``, or it is missing, null, -1, or no whole
  number. ``on_mismatch`` decides: they stop the run, or keep their text and lose their place, so
  that they are scored and never learned; with ``repair`` those whose text stands at one place
  get that place (``repaired_answers``).
* ``ambiguous_answers``, ``unlocated_answers``: a file of the raw CMRC 2018 shape has no offsets.
  A text that stands at one place is there; one at several places or nowhere has no place.
* ``unplaced_questions``: none of the gold answers has a place. Such a question is scored and not
  trained on; it is not impossible.
* ``renamed_ids``: an id that an earlier question has too stops the run, or is numbered.

Where questions are only to be answered, gold answers are not looked at: they may be missing,
misplaced or of any shape, in a file of any version. The rules for blank contexts, blank and padded
questions and repeated ids hold as above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import (
    SHOWN,
    Answer,
    Example,
    Examples,
    Tally,
    shortlist,
)
from lightwork.tasks.extractive.formats.shapes import Row
from lightwork.tasks.extractive.formats.source import Source
from lightwork.tasks.extractive.gold import CLASSES, GoldCheck, Misplaced, OnMismatch

OnRepeated = Literal["stop", "number"]
Progress = Callable[[int, int], None]
_TELL_EVERY = 1000


def read_examples(
    paths: Sequence[Path],
    *,
    limit: int | None = None,
    on_mismatch: OnMismatch = "stop",
    on_repeated: OnRepeated = "stop",
    progress: Progress | None = None,
) -> Examples:
    """The questions of all ``paths``, in order; the first ``limit`` of them.

    ``progress(done, total)`` counts the bytes of the files. Raises ``DataError`` for a path that
    is no file, a file of another format or shape or without questions, for repeated ids, and for
    misplaced gold answers, unless ``on_repeated`` and ``on_mismatch`` say otherwise.
    """
    reading = _Reading(paths, progress)
    for source, rows in reading.files(limit):
        check = GoldCheck(source.file, on_mismatch, reading.tally)
        reading.items.extend(_labelled(source.file, rows, check))
        reading.add(check)
    return reading.finished(on_repeated)


def read_questions(paths: Sequence[Path]) -> Examples:
    """The questions of all ``paths``, in order, without gold answers, whether there are any or not.

    Raises ``DataError`` as :func:`read_examples` does, for everything but the gold answers.
    """
    reading = _Reading(paths, None)
    for _source, rows in reading.files(None):
        reading.items.extend(
            Example(row.id, row.question, row.context, (), False, _blank(row, reading.tally))
            for row in rows
        )
    return reading.finished("stop")


class _Reading:
    """What has been read so far, over all files."""

    def __init__(self, paths: Sequence[Path], progress: Progress | None) -> None:
        if not paths:
            raise DataError("no data file was given; name at least one file of questions")
        self._files = [_existing(path) for path in paths]
        self._progress = progress
        self.items: list[Example] = []
        self.tally = Tally()
        self._contexts: dict[str, str] = {}
        self._shapes: list[str] = []
        self._classes: Counter[str] = Counter()
        self._misplaced: list[Misplaced] = []

    def files(self, limit: int | None) -> Iterator[tuple[Source, Iterator[Row]]]:
        """Each file with those of its questions that ``limit`` leaves, to be put in ``items``."""
        sizes = [file.stat().st_size for file in self._files]
        for number, file in enumerate(self._files):
            left = None if limit is None else limit - len(self.items)
            before = len(self.items)
            source = Source(file)
            yield source, islice(self._rows(source, sum(sizes[:number]), sizes), left)
            if len(self.items) == before and left != 0:
                raise DataError(f"{file}: the file has 0 questions")
            self._shapes.append(source.shape)
        self._tell(sum(sizes), sizes)

    def _rows(self, source: Source, before_bytes: int, sizes: list[int]) -> Iterator[Row]:
        size = sizes[len(self._shapes)]
        for number, row in enumerate(source):
            if number % _TELL_EVERY == 0:
                self._tell(before_bytes + int(source.share * size), sizes)
            # Rows repeat their context: one string for all of them is less memory.
            row.context = self._contexts.setdefault(row.context, row.context)
            yield row

    def _tell(self, done_bytes: int, sizes: list[int]) -> None:
        if self._progress is not None:
            self._progress(done_bytes, sum(sizes))

    def add(self, check: GoldCheck) -> None:
        """Take over what was noticed in one file."""
        self._classes.update(check.classes)
        self._misplaced += check.misplaced[: SHOWN - len(self._misplaced)]

    def finished(self, on_repeated: OnRepeated) -> Examples:
        """Everything, once each question has its own id."""
        items = self.items
        if len({example.id for example in items}) < len(items):
            if on_repeated == "stop":
                raise _repeated(items, self._files)
            items = _numbered(items, self.tally)
        summary = {
            "examples": len(items),
            "contexts": len(self._contexts),
            "answers": sum(len(example.answers) for example in items),
            "impossible": sum(example.impossible for example in items),
            **dict(sorted(self.tally.counts.items())),
        }
        return Examples(
            items,
            summary,
            self.tally.listed,
            tuple(self._shapes),
            {kind: self._classes[kind] for kind in CLASSES if self._classes[kind]},
            tuple(map(str, self._misplaced)),
        )


def _existing(path: Path) -> Path:
    """The absolute form of ``path``, which must be a file with something in it."""
    resolved = path.expanduser().resolve()
    reason = ""
    if not resolved.exists():
        reason = "does not exist"
    elif resolved.is_dir():
        reason = "is a folder, not a file"
    elif not resolved.is_file():
        reason = "is not a regular file"
    elif resolved.stat().st_size == 0:
        reason = "is empty"
    if reason:
        raise DataError(f"the data file {str(path)!r} {reason} (looked at {resolved})")
    return resolved


def _labelled(file: Path, rows: Iterable[Row], check: GoldCheck) -> list[Example]:
    unanswered: list[str] = []
    found = []
    for row in rows:
        golds = check.golds(row)
        if row.answer_required and not golds:
            unanswered.append(row.id)
        found.append(_example(row, golds, check))
    check.finish()
    if unanswered:
        raise DataError(
            f"{file}: the file calls itself SQuAD 1, where every question has an answer, but "
            f"{len(unanswered):,} of {len(found):,} have none: "
            f"{shortlist(unanswered, len(unanswered))}"
        )
    return found


def _example(row: Row, golds: list[tuple[str, Any]], check: GoldCheck) -> Example:
    answers: list[Answer] = []
    tally, unusable = check.tally, ""
    for text, given in golds:
        if text.strip():
            answers.append(check.answer(row, text, given))
        else:
            unusable = "blank_answers"
            tally.note("blank_answers", row.id)
    if answers:
        unusable = _unplaced(row, answers, tally)
    unusable = _blank(row, tally) or unusable
    if row.flag is not None and row.flag is not (not golds):
        tally.note("flag_conflicts", row.id)
    return Example(row.id, row.question, row.context, tuple(answers), not answers, unusable)


def _unplaced(row: Row, answers: list[Answer], tally: Tally) -> str:
    """Why none of the answers has a place; nothing where one has."""
    if any(answer.start is not None for answer in answers):
        return ""
    tally.note("unplaced_questions", row.id)
    if row.has_starts:
        return "misplaced_answers"
    ambiguous = any(answer.text in row.context for answer in answers)
    return "ambiguous_answers" if ambiguous else "unlocated_answers"


def _blank(row: Row, tally: Tally) -> str:
    """Which part of a question is blank, the context before the question; or nothing."""
    blank = ""
    if not row.question.strip():
        blank = "blank_questions"
        tally.note(blank, row.id)
    elif row.question != row.question.strip():
        tally.note("questions_with_outer_blanks", row.id)
    if not row.context.strip():
        blank = "blank_contexts"
        tally.note(blank, row.id)
    return blank


def _repeated(items: list[Example], files: list[Path]) -> DataError:
    counts = Counter(example.id for example in items)
    repeated = [name for name, count in counts.items() if count > 1]
    return DataError(
        f"{', '.join(map(str, files))}: ids that stand for more than one question: "
        f"{len(repeated):,} ({shortlist(repeated, len(repeated))}). Give each question its own id, "
        "or let lightwork data FILE --write OUT number them"
    )


def _numbered(items: list[Example], tally: Tally) -> list[Example]:
    """``items`` where the second question of the id ``a`` is ``a-2``, or the next free number."""
    taken = {example.id for example in items}
    last: dict[str, int] = {}
    numbered = []
    for example in items:
        name = new = example.id
        number = last.get(name, 0) + 1
        while number > 1 and (new := f"{name}-{number}") in taken:
            number += 1
        last[name] = number
        if number > 1:
            tally.note("renamed_ids", name)
        numbered.append(replace(example, id=new) if number > 1 else example)
    return numbered


def texts(examples: Examples) -> Iterable[str]:
    """Every distinct context once, then every question: what a tokenizer is trained on."""
    contexts = dict.fromkeys(example.context for example in examples)
    return chain(contexts, (example.question for example in examples))
