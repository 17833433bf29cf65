"""What was found out about files of questions, as lines for a person, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from lightwork.report.dataset import Noticed, Overlap, SetFacts
from lightwork.report.dataset_outcome import DatasetReport
from lightwork.report.dataset_tokens import Lengths
from lightwork.report.dataset_windows import WindowFacts
from lightwork.report.dataset_writing import Written
from lightwork.tasks.extractive.examples import shortlist, shown
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


def lines_of(report: DatasetReport) -> list[str]:
    """The whole report."""
    lines = ["training questions"] if report.dev else []
    lines += _wrapped(_set_blocks(report.train))
    lines += _lengths(report)
    if report.windows is not None:
        lines += _wrapped(_window_blocks(report.windows))
    if report.dev is not None and report.overlap is not None:
        lines += ["", "held-out questions"]
        lines += _wrapped([*_set_blocks(report.dev), *_overlap_blocks(report.overlap)])
        lines.append("")
    return lines + _wrapped(_outcome_blocks(report))


def _set_blocks(facts: SetFacts) -> Iterator[Block]:
    for file, shape in zip(facts.files, facts.shapes, strict=True):
        yield "file", f"{file}: {shape}"
    languages = [f"{name} {percent(share)}" for name, share in facts.languages.items()]
    yield "language", ", ".join(languages) or "no letters that tell it"
    yield "questions", f"{facts.questions:,} about {facts.distinct_contexts:,} distinct contexts"
    yield (
        "",
        f"{facts.questions_with_answer:,} have an answer, {facts.questions_impossible:,} are "
        f"impossible; {facts.questions_trainable:,} can be trained on",
    )
    yield from _answer_blocks(facts)
    label = "noticed"
    for noticed in facts.noticed.values():
        yield label, f"{noticed.count:,} {noticed.meaning}{_ids(noticed)}"
        label = ""
    again = facts.repeated_questions
    told = f"{again.count:,} {again.meaning}{_ids(again)}"
    yield "repeated", told if again.count else "no question stands twice with the same context"


def _answer_blocks(facts: SetFacts) -> Iterator[Block]:
    yield "answers", f"{facts.gold_answers:,} gold answers"
    for name, count in facts.answers_by_class.items():
        yield "", f"{count:,} {CLASSES[name]} ({name})"
    for text in facts.misplaced:
        yield "", f"- {text}"
    more = facts.misplaced_answers + facts.answers_by_class.get("unlocated", 0)
    if more > len(facts.misplaced):
        yield "", f"- and {more - len(facts.misplaced):,} more"


def _ids(noticed: Noticed) -> str:
    return f": {shortlist(list(noticed.ids), noticed.count)}" if noticed.ids else ""


def _lengths(report: DatasetReport) -> list[str]:
    """A table; by characters where there is no tokenizer."""
    lengths: Lengths = report.lengths_tokens or report.lengths_characters
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
    if report.lengths_tokens:
        how = f"by the tokenizer of {report.model}; whole is question, context and special tokens"
    else:
        how = (
            "in characters, since no --model is named; whole is question and context; with "
            "--model they are tokens, and windows and padding are counted"
        )
    return [*_wrapped([("lengths", how)]), *lines]


def _window_blocks(facts: WindowFacts) -> Iterator[Block]:
    yield (
        "windows",
        f"of at most {facts.max_length_tokens:,} tokens, sharing {facts.stride_tokens:,}, with "
        f"questions of at most {facts.max_question_length_tokens:,}",
    )
    yield (
        "",
        f"{facts.windows:,} windows, {facts.windows_per_question:.2f} for each question, of which "
        f"{facts.trained_windows:,} are trained on; {percent(facts.one_window_share)} of the "
        "questions are one window",
    )
    if facts.cut_questions:
        yield "", f"questions that are longer, and cut: {facts.cut_questions:,}"
    yield (
        "",
        f"{facts.cut_answers:,} answers ({percent(facts.cut_answers_share)}) are whole in no "
        "window and not learned",
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
    if report.written is not None:
        yield from _written_blocks(report.written)
    stops = report.stops
    if not stops:
        yield "training", "nothing in the way of training"
    what = "training" if report.written is None else "training on the files that were read"
    for number, reason in enumerate(stops):
        yield ("", reason) if number else ("training", f"{what} would stop: {reason}")


def _written_blocks(facts: Written) -> Iterator[Block]:
    yield (
        "written",
        f"{facts.file}: {facts.questions:,} questions with {facts.answers:,} answers, SQuAD "
        f"{facts.version.removeprefix('v')}",
    )
    for count, what in (
        (facts.left_out_unusable_questions, "questions left out: something in them is blank"),
        (facts.left_out_unplaced_questions, "questions left out: no answer of theirs has a place"),
        (facts.left_out_unplaced_answers, "answers left out: they have no place"),
        (facts.stripped_questions, "questions written without the blanks around them"),
    ):
        if count:
            yield "", f"{count:,} {what}"


def _wrapped(blocks: Sequence[Block] | Iterator[Block]) -> list[str]:
    """Lines of at most ``WIDTH`` places of a terminal, where a Chinese character takes two."""
    console = Console(width=WIDTH)
    lines = []
    for label, text in blocks:
        pieces = Text(shown(text, most=len(text))).wrap(
            console, WIDTH - LABEL_COLUMNS, overflow="fold"
        )
        for number, piece in enumerate(pieces):
            first = label if number == 0 else ""
            lines.append(f"{first:<{LABEL_COLUMNS}}{piece.plain}".rstrip())
    return lines
