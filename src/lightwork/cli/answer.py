"""``lightwork answer``: ask a model that has learned, about a text or for a file of questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightwork.cli.answer_display import as_json, show
from lightwork.cli.asking import STDIN, converse, lines, read_text, usable
from lightwork.cli.evaluate import check_checkpoints
from lightwork.disk import replacing
from lightwork.errors import RunError, SettingsError
from lightwork.settings import check_files, default_of, folder_reason, locate, named, read_run

if TYPE_CHECKING:
    from lightwork.assembly.answering import Answerer

TOP = 3


class Device(str, Enum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a run, or of any Hugging Face QA model."),
]
Question = Annotated[
    str | None,
    typer.Argument(
        metavar="QUESTION",
        help="Otherwise questions are asked for, or read from standard input, one a line.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The text that holds the answers; - is standard input."),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Answer a file of questions instead, with or without gold answers; may be repeated. "
        "Gives {id: text}, or with --json or --top 2 and more "
        "{id: [{text, probability, start, end}, …]}.",
    ),
]
Top = Annotated[
    int | None,
    typer.Option(min=1, max=1000, metavar="N", help=f"Answers for each question; otherwise {TOP}."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where the answers to --data go; otherwise standard output."),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Write JSON, about one text as one line for each question. start and end count "
        "characters from 0, end is behind the last one, line counts from 1; no answer is an empty "
        "text at -1.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file --out names.")]
DeviceOption = Annotated[
    Device | None,
    typer.Option(
        "--device",
        metavar="cpu|cuda|auto",
        help="Where to compute; otherwise as in the run, or on a GPU if there is one.",
    ),
]


def answer(  # noqa: PLR0913 - options of a command
    run: RunArgument,
    question: Question = None,
    *,
    context: Context = None,
    data: Data = None,
    top: Top = None,
    out: Out = None,
    json_lines: Json = False,
    overwrite: Overwrite = False,
    device: DeviceOption = None,
) -> None:
    """Ask the best model of a run about a text, or let it answer a file of questions."""
    _check_combination(question, context, data, out)
    run = run.expanduser()
    _check_learned(run)
    if context is not None:
        asked = None if question is None else usable(question)
        text = read_text(context)
        with _opened(run, device, top or TOP) as answerer:
            _answer_each(answerer, text, asked, top or TOP, json_lines)
        return
    files = check_files("--data", data or [])
    target = None if out is None else _target(out, overwrite)
    n_best = (top or TOP) if json_lines or (top or 1) > 1 else None
    _answer_files(run, device, files, target, n_best)


def _check_combination(
    question: str | None, context: str | None, data: list[str] | None, out: Path | None
) -> None:
    if data and (context is not None or question is not None):
        other = "--context" if context is not None else "a question"
        raise SettingsError(
            f"--data brings its own texts and questions and cannot be used with {other}; give "
            "either --data FILE, or --context FILE with a question or without"
        )
    if not data and context is None:
        raise SettingsError(
            "there is no text to find answers in; name one with --context FILE, or a file of "
            "questions with --data FILE"
        )
    if context == STDIN and question is None:
        raise SettingsError(
            "--context - reads the text from standard input, so the question must be given on the "
            'command line: lightwork answer RUN "Who …?" --context -'
        )
    if out is not None and not data:
        raise SettingsError("--out belongs to --data; answers about one text go to standard output")


def _check_learned(run: Path) -> None:
    """Whether ``run`` looks like something that can be asked; without torch."""
    if locate(run)[1] is not None:
        read_run(run)
        check_checkpoints(run)
    elif not run.is_dir():
        reason = "is a file, not a folder" if run.exists() else "does not exist"
        raise RunError(f"the folder {named(str(run), run.absolute())} {reason}")
    elif not (run / "config.json").is_file():
        raise RunError(
            f"the folder {named(str(run), run.absolute())} is neither a run (it has no run.json) "
            "nor a model (it has no config.json)"
        )


def _target(out: Path, overwrite: bool) -> Path:
    out = out.expanduser().absolute()
    if out.is_dir():
        raise RunError(f"--out: {out} is a folder; name a file in it")
    if out.exists() and not overwrite:
        raise RunError(f"--out: {out} exists already; add --overwrite to replace it")
    reason = folder_reason(out.parent)
    if reason:
        raise RunError(f"--out: the folder {out.parent} {reason}")
    return out


@contextmanager
def _opened(run: Path, device: Device | None, top: int) -> Iterator[Answerer]:
    """The model, loaded; what it has to say on the way goes to standard error."""
    from lightwork.telemetry.logs import logging_to
    from lightwork.telemetry.terminal import terminal

    with logging_to(None, rank=0):
        with terminal().status("loading the model"):
            from lightwork.assembly.answering import open_answerer

            answerer = open_answerer(run, None if device is None else device.value, top)
        yield answerer


def _answer_each(
    answerer: Answerer, text: str, question: str | None, top: int, json_lines: bool
) -> None:
    """The one question that was given, or all that come."""

    def tell(asked: str) -> None:
        found = answerer.answer(text, asked, top)
        if json_lines:
            entry = {"question": asked, "answers": as_json(found, text)}
            typer.echo(json.dumps(entry, ensure_ascii=False))
        else:
            show(found, text, asked if question is None else None)
        sys.stdout.flush()

    if question is not None:
        tell(question)
    elif sys.stdin.isatty():
        converse(tell)
    else:
        for asked in lines():
            tell(asked)


def _answer_files(
    run: Path, device: Device | None, files: list[Path], target: Path | None, n_best: int | None
) -> None:
    """All questions of ``files``: the ``n_best`` answers to each, or None for the best text."""
    from lightwork.tasks.extractive.formats.hub import on_disk
    from lightwork.tasks.extractive.reading import read_questions
    from lightwork.telemetry.progress import counting

    cache = Path(default_of("data.cache")).expanduser()
    examples = read_questions(on_disk(files, cache))
    with _opened(run, device, n_best or 1) as answerer, counting("answering") as progress:
        found = answerer.answer_all(examples, n_best or 1, progress)
    content = {
        example_id: answers[0].text if n_best is None else as_json(answers)
        for example_id, answers in found.items()
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if target is None:
        typer.echo(text)
        return
    _write(target, text + "\n")
    typer.echo(f"{len(found):,} questions answered, written to {target}", err=True)


def _write(path: Path, text: str) -> None:
    """Write ``path`` whole or not at all."""
    try:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise RunError(f"--out: cannot write {path} ({error.strerror})") from None
