"""What was found out about files of questions, as lines for a person, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import Console
from rich.text import Text

from lightwork.report.dataset import Noticed, Overlap, SetFacts
from lightwork.report.dataset_outcome import DatasetReport
from lightwork.report.dataset_tokens import Lengths
from lightwork.report.dataset_windows import WindowFacts
from lightwork.report.dataset_writing import Written
from lightwork.tasks.extractive.examples import noted, shortlist, shown
from lightwork.tasks.extractive.gold import CLASSES

WIDTH = 80
LABEL_COLUMNS = 11

Block = tuple[str, str]
"""A label, empty where a text belongs to the one before, and a text that is wrapped."""


def percent(share: float) -> str:
    """``3.4 %``; never 0 or 100 where it is not exactly that."""
    rounded = round(100 * share, 1)
    if rounded >= 100 and share < 1:
        return "over 99.9 %"
    if rounded == 0 and share > 0:
        return "under 0.1 %"
    return f"{rounded:.0f} %" if rounded in (0, 100) else f"{rounded:.1f} %"


def lines_of(report: DatasetReport, *, fold: bool = True) -> list[str]:
    """The whole report.

    Without ``fold`` a word that is longer than a line, such as a path, stays in one piece.
    """
    lines = ["training questions"] if report.dev else []
    lines += _wrapped(_set_blocks(report.train), fold)
    lines += _wrapped([("lengths", _measured(report))], fold)
    lines += _lengths(report.lengths_tokens or report.lengths_characters, report)
    if report.windows is not None:
        lines += _wrapped(_window_blocks(report.windows), fold)
    if report.dev is not None and report.overlap is not None:
        lines += ["", "held-out questions"]
        lines += _wrapped([*_set_blocks(report.dev), *_overlap_blocks(report.overlap)], fold)
        lines.append("")
    return lines + _wrapped(_outcome_blocks(report), fold)


def _set_blocks(facts: SetFacts) -> Iterator[Block]:
    for file, shape in zip(facts.files, facts.shapes, strict=True):
        yield "file", f"{file}: {shape}"
    languages = [f"{name} {percent(share)}" for name, share in facts.languages.items()]
    yield "language", ", ".join(languages)
    contexts = noted(facts.distinct_contexts, "distinct contexts")
    yield "questions", f"{facts.questions:,} about {contexts}"
    yield (
        "",
        f"{facts.questions_with_answer:,} with an answer, {facts.questions_impossible:,} "
        f"impossible; {facts.questions_trainable:,} can be trained on",
    )
    yield from _answer_blocks(facts)
    label = "noticed"
    for noticed in facts.noticed.values():
        yield label, f"{noted(noticed.count, noticed.meaning)}{_ids(noticed)}"
        label = ""
    again = facts.repeated_questions
    told = f"{noted(again.count, again.meaning)}{_ids(again)}"
    yield "repeated", told if again.count else "no question stands twice with the same context"


def _answer_blocks(facts: SetFacts) -> Iterator[Block]:
    yield "answers", noted(facts.gold_answers, "gold answers")
    for name, count in facts.answers_by_class.items():
        yield "", f"{count:,} {CLASSES[name]} ({name})"
    for text in facts.misplaced:
        yield "", f"- {text}"
    more = facts.misplaced_answers + facts.answers_by_class.get("unlocated", 0)
    if more > len(facts.misplaced):
        yield "", f"- and {more - len(facts.misplaced):,} more"


def _ids(noticed: Noticed) -> str:
    return f": {shortlist(list(noticed.ids), noticed.count)}" if noticed.ids else ""


def _measured(report: DatasetReport) -> str:
    """In what lengths are counted."""
    if report.lengths_tokens:
        return f"by the tokenizer of {report.model}; whole is question, context and special tokens"
    return (
        "in characters, since no --model is named; whole is question and context; with --model "
        "they are tokens, and windows and padding are counted"
    )


def _lengths(lengths: Lengths, report: DatasetReport) -> list[str]:
    """A table; by characters where there is no tokenizer."""
    unit = "tokens" if report.lengths_tokens else "characters"
    rows = [
        ("question", lengths.question),
        ("context", lengths.context),
        ("answer", lengths.answer),
        ("whole", lengths.whole),
    ]
    lines = [f"{'':<{LABEL_COLUMNS}}{unit:<12}{'p50':>11}{'p90':>11}{'max':>11}"]
    for name, spread in rows:
        if spread is not None:
            numbers = f"{spread.p50:>11,}{spread.p90:>11,}{spread.max:>11,}"
            lines.append(f"{'':<{LABEL_COLUMNS}}{name:<12}{numbers}")
    return lines


def _window_blocks(facts: WindowFacts) -> Iterator[Block]:
    yield (
        "windows",
        f"of at most {facts.max_length_tokens:,} tokens, sharing {facts.stride_tokens:,}, with "
        f"questions of at most {facts.max_question_length_tokens:,}",
    )
    yield (
        "",
        f"{noted(facts.windows, 'windows')} ({facts.trained_windows:,} trained on), "
        f"{facts.windows_per_question:.2f} for each question; {percent(facts.one_window_share)} of "
        "the questions are one window",
    )
    if facts.cut_questions:
        yield "", f"questions that are longer, and cut: {facts.cut_questions:,}"
    ids = shortlist(list(facts.cut_answers_ids), facts.cut_answers)
    yield (
        "",
        f"{noted(facts.cut_answers, 'answers')} ({percent(facts.cut_answers_share)}) whole in no "
        f"window, and not learned{ids and ': '}{ids}",
    )
    yield (
        "padding",
        f"{percent(facts.padding_to_max_length_share)} of all tokens with every window padded to "
        f"{facts.max_length_tokens:,}; {percent(facts.padding_planned_share)} in the batches of "
        f"{facts.batch_windows:,} that lightwork plans",
    )


def _overlap_blocks(facts: Overlap) -> Iterator[Block]:
    if not facts.shared_contexts:
        yield "overlap", "none of its contexts is in the training files"
        return
    yield (
        "overlap",
        f"{facts.shared_questions:,} of its questions "
        f"({percent(facts.shared_questions / facts.questions)}) and {facts.shared_contexts:,} of "
        f"its contexts ({percent(facts.shared_contexts / facts.contexts)}) are in the training "
        "files too",
    )
    yield "", "its scores will flatter: the model has seen these texts in training"
    yield "", f"the first such questions: {shortlist(list(facts.ids), len(facts.ids))}"


def _outcome_blocks(report: DatasetReport) -> Iterator[Block]:
    stops, what, fine = report.stops, "training", "nothing in the way of training"
    if report.written is not None:
        yield from _written_blocks(report.written)
        stops, file = report.stops_when_written, report.written.file
        what, fine = f"training on {file}", f"{file} can be trained on"
    if not stops:
        yield "training", fine
    for number, reason in enumerate(stops):
        yield ("", reason) if number else ("training", f"{what} would stop: {reason}")


def _written_blocks(facts: Written) -> Iterator[Block]:
    yield (
        "written",
        f"{facts.file}: {noted(facts.questions, 'questions')} with "
        f"{noted(facts.answers, 'answers')}, SQuAD {facts.version.removeprefix('v')}",
    )
    for count, what in (
        (facts.left_out_unusable_questions, "questions left out, with something blank"),
        (facts.left_out_unplaced_questions, "questions left out, with no answer that has a place"),
        (facts.left_out_unplaced_answers, "answers left out, without a place"),
        (facts.stripped_questions, "questions written without outer blanks"),
    ):
        if count:
            yield "", noted(count, what)
    if facts.left_out_any:
        yield "", "for training: as held-out questions they would have other scores"


def _wrapped(blocks: Sequence[Block] | Iterator[Block], fold: bool) -> list[str]:
    """Lines of at most ``WIDTH`` places of a terminal, where a Chinese character takes two."""
    lines = []
    for label, text in blocks:
        for number, piece in enumerate(_pieces(shown(text, most=len(text)), fold)):
            first = label if number == 0 else ""
            lines.append(f"{first:<{LABEL_COLUMNS}}{piece}".rstrip())
    return lines


def _pieces(text: str, fold: bool) -> list[str]:
    room = WIDTH - LABEL_COLUMNS
    if fold:
        return [line.plain for line in Text(text).wrap(Console(width=WIDTH), room, overflow="fold")]
    return wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
