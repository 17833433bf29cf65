"""Files of questions -> checked examples. Nothing is dropped, repaired or guessed in silence.

The rules, one each; what they touch is counted in ``Examples.summary`` with the first ids:

* ``impossible``: only an empty list of gold answers makes a question impossible, as in the
  official SQuAD 2.0 scoring. A file that calls itself version 1.1 may not have any.
* ``flag_conflicts``: ``is_impossible`` says something else than the answers, or is not a boolean;
  the answers win. Plausible answers are never gold answers.
* ``blank_contexts``: no windows; the prediction is "".
* ``blank_questions``: not trained on; predicted from the context alone.
* ``blank_answers``: a blank gold text is no gold answer; a question left without any because of
  that is scored as impossible, but not trained on.
* ``padded_questions``: blanks around a question are kept here and stripped before tokenising.
* ``odd_starts``: an ``answer_start`` of 20.0 or "20" is read as 20.

A misplaced gold answer, a missing or -1 ``answer_start`` and a repeated id stop the run.

Where questions are only to be answered, gold answers are not looked at: they may be missing,
misplaced or of any shape, in a file of any version. The rules for blank contexts, blank and padded
questions and repeated ids hold as above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import Answer, Example, Examples, Tally, shortlist
from lightwork.tasks.extractive.formats.shapes import Row, read_rows
from lightwork.tasks.extractive.gold import GoldCheck, whole_number


def read_examples(paths: Sequence[Path], *, limit: int | None = None) -> Examples:
    """The questions of all ``paths``, in order; the first ``limit`` of them.

    Raises ``DataError`` for a path that is no file, a file that is not UTF-8, not JSON, of
    another shape or without questions, for repeated ids, and for gold answers that do not stand
    at their offset.
    """
    return _read(paths, limit, _labelled)


def read_questions(paths: Sequence[Path]) -> Examples:
    """The questions of all ``paths``, in order, without gold answers, whether there are any or not.

    Raises ``DataError`` as :func:`read_examples` does, for everything but the gold answers.
    """
    return _read(paths, None, _unlabelled)


def _read(
    paths: Sequence[Path],
    limit: int | None,
    examples_of: Callable[[Path, Iterable[Row], Tally], list[Example]],
) -> Examples:
    if not paths:
        raise DataError("no data file was given; name at least one file of questions")
    files = [_existing(path) for path in paths]
    tally = Tally()
    items: list[Example] = []
    for file in files:
        left = None if limit is None else limit - len(items)
        rows = islice(read_rows(file), left)
        before = len(items)
        items.extend(examples_of(file, rows, tally))
        if len(items) == before and left != 0:
            raise DataError(f"{file}: the file has 0 questions")
    _refuse_repeated(items, files)
    summary = {
        "examples": len(items),
        "contexts": len({example.context for example in items}),
        "answers": sum(len(example.answers) for example in items),
        "impossible": sum(example.impossible for example in items),
        **dict(sorted(tally.counts.items())),
    }
    return Examples(items, summary, tally.listed)


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


def _unlabelled(_file: Path, rows: Iterable[Row], tally: Tally) -> list[Example]:
    return [
        Example(row.id, row.question, row.context, (), False, unusable=_blank(row, tally))
        for row in rows
    ]


def _labelled(file: Path, rows: Iterable[Row], tally: Tally) -> list[Example]:
    check = GoldCheck(file)
    unanswered: list[str] = []
    found = []
    for row in rows:
        golds = row.answers()
        if row.answer_required and not golds:
            unanswered.append(row.id)
        found.append(_example(row, golds, check, tally))
    if unanswered:
        raise DataError(
            f"{file}: the file calls itself version 1.1, where every question has an answer, but "
            f"{len(unanswered):,} of {len(found):,} have none: "
            f"{shortlist(unanswered, len(unanswered))}"
        )
    check.finish()
    return found


def _example(row: Row, golds: list[tuple[str, Any]], check: GoldCheck, tally: Tally) -> Example:
    answers: list[Answer] = []
    blank = False
    for text, given in golds:
        if not text.strip():
            blank = True
            tally.note("blank_answers", row.id)
        elif check.holds(row.id, text, given, row.context):
            if not isinstance(given, int):
                tally.note("odd_starts", row.id)
            answers.append(Answer(text, whole_number(given) or 0))
    unusable = "blank_answers" if blank and not answers else ""
    unusable = _blank(row, tally) or unusable
    if row.flag is not None and row.flag is not (not golds):
        tally.note("flag_conflicts", row.id)
    return Example(
        row.id, row.question, row.context, tuple(answers), not answers, unusable=unusable
    )


def _blank(row: Row, tally: Tally) -> str:
    """Which part of a question is blank, the context before the question; or nothing."""
    blank = ""
    if not row.question.strip():
        blank = "blank_questions"
        tally.note(blank, row.id)
    elif row.question != row.question.strip():
        tally.note("padded_questions", row.id)
    if not row.context.strip():
        blank = "blank_contexts"
        tally.note(blank, row.id)
    return blank


def _refuse_repeated(items: list[Example], files: list[Path]) -> None:
    if len({example.id for example in items}) == len(items):
        return
    seen: set[str] = set()
    repeated: dict[str, None] = {}
    for example in items:
        if example.id in seen:
            repeated[example.id] = None
        seen.add(example.id)
    names = ", ".join(map(str, files))
    raise DataError(
        f"{names}: {len(repeated):,} ids stand for more than one question: "
        f"{shortlist(list(repeated), len(repeated))}; give each question its own id"
    )


def texts(examples: Examples) -> Iterable[str]:
    """Every distinct context once, then every question: what a tokenizer is trained on."""
    contexts = dict.fromkeys(example.context for example in examples)
    return chain(contexts, (example.question for example in examples))
