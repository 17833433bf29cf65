"""``lightwork score``: predictions of any model against gold answers, without a model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lightwork.errors import DataError, SettingsError
from lightwork.settings import check_files, default_of

if TYPE_CHECKING:
    from lightwork.tasks.extractive.scoring.score import Gold, NoAnswer

    Scores = dict[str, float | int]

Predictions = Annotated[
    str, typer.Argument(metavar="PREDICTIONS", help="A JSON file: the id of a question -> a text.")
]
Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Files of questions with gold answers.")
]
NaProb = Annotated[
    str | None,
    typer.Option(
        metavar="NA", help="A JSON file: the id of a question -> how likely it has no answer."
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(metavar="X", help='A number of NA above X turns a prediction into "no answer".'),
]
Language = Annotated[
    str, typer.Option(metavar="CODE", help="The language of the answers, such as en, zh or de.")
]
NoAnswerText = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help='What predictions say for "no answer", if not nothing.'),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, with all digits.")]

_ROWS = (
    ("all", "exact_match", "f1", "total"),
    ("with an answer", "HasAns_exact", "HasAns_f1", "HasAns_total"),
    ("without an answer", "NoAns_exact", "NoAns_f1", "NoAns_total"),
    ("predicted only, as the official script", "official_exact", "official_f1", "official_total"),
)


class UnmatchedError(DataError):
    """Scores were shown, but predictions and questions are not about the same ids."""

    exit_code = 1


def score(  # noqa: PLR0913 - options of a command
    predictions: Predictions,
    files: Files,
    *,
    na_prob: NaProb = None,
    threshold: Threshold = None,
    language: Language = "auto",
    no_answer_text: NoAnswerText = None,
    as_json: Json = False,
) -> None:
    """Score a file of predictions by the official definition of its language."""
    if threshold is not None and not math.isfinite(threshold):
        raise SettingsError(f"--threshold: {threshold} is no number to compare with")
    if threshold is not None and na_prob is None:
        raise SettingsError("--threshold compares with the numbers of a file; name it by --na-prob")
    _check_language(language)
    texts = _predictions(predictions, no_answer_text)
    likely = {} if na_prob is None else _likelihoods(na_prob, texts)
    golds = _golds(files)
    from lightwork.tasks.extractive.scoring.score import NoAnswer, definition, score_answers

    no_answer = {name: NoAnswer(likely[name], text) for name, text in texts.items() if likely}
    kept = texts
    if threshold is not None:
        kept = {name: "" if likely[name] > threshold else text for name, text in texts.items()}
    scores = score_answers(kept, golds, language=language, no_answer=no_answer or None)
    how = str(definition(golds, language))
    missing = [name for name in golds if name not in texts]
    unknown = [name for name in texts if name not in golds]
    if as_json:
        ids = {"missing_ids": missing, "unknown_ids": unknown}
        typer.echo(json.dumps({**scores, "definition": how, **ids}, indent=2))
    else:
        typer.echo("\n".join([how, *_table(scores)]))
    _warn(no_answer)
    _refuse_unmatched(predictions, missing, unknown)


def _check_language(language: str) -> None:
    from lightwork.tasks.extractive.languages import LANGUAGES

    if language not in LANGUAGES:
        raise SettingsError(
            f"--language: {language!r} is not one of {', '.join(LANGUAGES)}; other languages are "
            "scored as other"
        )


def _golds(files: list[str]) -> dict[str, Gold]:
    """Gold answers count here whether they stand at their ``answer_start`` or not."""
    from lightwork.tasks.extractive.formats.hub import on_disk
    from lightwork.tasks.extractive.reading import read_examples
    from lightwork.tasks.extractive.scoring.score import Gold

    paths = on_disk(check_files("FILE", files), Path(default_of("data.cache")).expanduser())
    examples = read_examples(paths, on_mismatch="drop")
    return {
        example.id: Gold(tuple(answer.text for answer in example.answers), example.context)
        for example in examples
    }


def _object(key: str, given: str, expected: str) -> tuple[Path, dict[str, Any]]:
    """The one JSON object of a file, and where that is."""
    from lightwork.tasks.extractive.formats.opened import decoded, opened
    from lightwork.tasks.extractive.formats.place import Place, as_object
    from lightwork.tasks.extractive.formats.text import parsed

    path = check_files(key, [given])[0]
    with opened(path) as content:
        text = decoded(path, content.stream.read())
    return path, as_object(Place(path), parsed(path, text), expected)


def _predictions(given: str, no_answer_text: str | None) -> dict[str, str]:
    """Id of a question -> the predicted text; null is no prediction."""
    from lightwork.tasks.extractive.formats.place import Place, as_text

    expected = "an object with the id of each question and its predicted text"
    path, values = _object("PREDICTIONS", given, expected)
    texts = {
        as_text(Place(path), name): as_text(Place(path).at(name), value)
        for name, value in values.items()
        if value is not None
    }
    if no_answer_text is None:
        return texts
    none = no_answer_text.strip()
    return {name: "" if text.strip() == none else text for name, text in texts.items()}


def _likelihoods(given: str, texts: dict[str, str]) -> dict[str, float]:
    """Id of a question -> its number; every prediction must have one."""
    from lightwork.tasks.extractive.examples import shortlist
    from lightwork.tasks.extractive.formats.place import Place

    expected = "an object with the id of each question and a number"
    path, values = _object("--na-prob", given, expected)
    for name, value in values.items():
        if not _is_finite(value):
            raise Place(path).at(name).wrong("a finite number", value)
    stray = [name for name in values if name not in texts]
    if stray:
        told = f"{len(stray):,} ({shortlist(stray, len(stray))})"
        typer.echo(f"warning: {path}: numbers without a prediction: {told}", err=True)
    lacking = [name for name in texts if name not in values]
    if lacking:
        raise DataError(
            f"{path}: predictions without a number here: {len(lacking):,} "
            f"({shortlist(lacking, len(lacking))})"
        )
    return {name: float(value) for name, value in values.items()}


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(value)
    except (TypeError, OverflowError):  # no number, or a whole one beyond all others
        return False


def _table(scores: Scores) -> list[str]:
    """Scores in percent with two digits, and the best thresholds."""
    rows = [row for row in _ROWS if row[3] in scores]
    width = max(len(row[0]) for row in rows)
    lines = [f"{'':{width}}  questions  exact match      F1"]
    for name, exact, f1, total in rows:
        numbers = f"{scores[total]:9,}  {scores[exact]:11.2f}  {scores[f1]:6.2f}"
        lines.append(f"{name:{width}}  {numbers}")
    if "best_f1" in scores:
        exact, f1 = _best(scores, "best_exact"), _best(scores, "best_f1")
        lines.append(f"best thresholds: exact match {exact}, F1 {f1}")
    return lines


def _best(scores: Scores, name: str) -> str:
    """With all digits, since rounded down a threshold would lose the question that it comes from.

    A sweep that never got better than where it began has found no threshold.
    """
    if scores[name] <= 100.0 * scores.get("NoAns_total", 0) / max(scores["total"], 1):
        return f"{scores[name]:.2f} by never answering"
    return f"{scores[name]:.2f} at {scores[f'{name}_thresh']!r}"


def _warn(no_answer: dict[str, NoAnswer]) -> None:
    from lightwork.tasks.extractive.scoring.score import sweep_is_meaningless

    if no_answer and sweep_is_meaningless(no_answer):
        typer.echo(
            "warning: all numbers of --na-prob are equal, so that the best thresholds mean nothing",
            err=True,
        )


def _refuse_unmatched(given: str, missing: list[str], unknown: list[str]) -> None:
    """Lost and stray predictions are told after the scores, and the command fails."""
    from lightwork.tasks.extractive.examples import shortlist

    parts = []
    if missing:
        parts.append(
            f"questions without a prediction, which count as wrong: {len(missing):,} "
            f"({shortlist(missing, len(missing))})"
        )
    if unknown:
        parts.append(
            f"predictions without a question: {len(unknown):,} ({shortlist(unknown, len(unknown))})"
        )
    if parts:
        raise UnmatchedError(f"{given}: {'; '.join(parts)}")
