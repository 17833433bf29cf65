"""``lightwork data``: everything about files of questions, without training."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightwork.errors import RunError, SettingsError
from lightwork.settings import check_files, default_of, folder_reason, named

if TYPE_CHECKING:
    from lightwork.report.dataset_inspection import Windowing
    from lightwork.tasks.extractive.gold import OnMismatch

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Files of questions that are one set.")
]
Dev = Annotated[
    list[str] | None,
    typer.Option("--dev", metavar="FILE", help="Held-out questions, to compare with."),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="A hub name, a folder, or package:NAME/folder: count in tokens, and windows.",
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Tokens of a window, as data.max_length.")
]
Stride = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Tokens that windows share, as data.stride.")
]
MaxQuestionLength = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Tokens of a question, as data.max_question_length."),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Windows of a batch, as train.batch_size.")
]
Mismatch = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Answers not at their place: drop (they are not learned; the default), or repair "
        "(those whose text stands at one place only are moved there; the default with --write).",
    ),
]
Write = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT.json",
        help="Write FILE... as one clean SQuAD file to train on, without what cannot be learned: "
        "answers that have no place, and what is blank. That changes scores, so leave held-out "
        "files as they are.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT where it is there.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, with everything.")]


def data(  # noqa: PLR0913 - options of a command
    files: Files,
    *,
    dev: Dev = None,
    model: Model = None,
    max_length: MaxLength = None,
    stride: Stride = None,
    max_question_length: MaxQuestionLength = None,
    batch_size: BatchSize = None,
    on_mismatch: Mismatch = None,
    write: Write = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Say what is in files of questions, what is odd in them, and how training would cut them."""
    mode = _mode(on_mismatch, writing=write is not None)
    train_files, dev_files = check_files("FILE", files), check_files("--dev", dev or [])
    target = None if write is None else _target(write, [*train_files, *dev_files], overwrite)
    sizes = _sizes(
        model,
        {
            "data.max_length": max_length,
            "data.stride": stride,
            "data.max_question_length": max_question_length,
            "train.batch_size": batch_size,
        },
    )
    from lightwork.report.dataset_inspection import inspect
    from lightwork.report.dataset_text import lines_of
    from lightwork.telemetry.logs import logging_to

    windowing = None if model is None else _windowing(model, sizes)
    with logging_to(None, rank=0):
        report = inspect(
            train_files, dev_files, on_mismatch=mode, windowing=windowing, target=target
        )
    folded = sys.stdout.isatty()
    lines = [json.dumps(report.as_json(), indent=2)] if as_json else lines_of(report, fold=folded)
    typer.echo("\n".join(lines))


def _mode(given: str | None, *, writing: bool) -> OnMismatch:
    if given is None:
        return "repair" if writing else "drop"
    if given == "stop":
        raise SettingsError(
            "--on-mismatch stop is for training: this command tells of misplaced answers, and "
            "stops at none; name repair or drop, or leave it out"
        )
    if given not in ("repair", "drop"):
        raise SettingsError(f"--on-mismatch: {given!r} is neither repair nor drop")
    return "repair" if given == "repair" else "drop"


def _sizes(model: str | None, given: dict[str, int | None]) -> dict[str, int]:
    """The settings that were given, and the defaults of the others."""
    named_sizes = [name for name, value in given.items() if value is not None]
    if model is None and named_sizes:
        option = named_sizes[0].partition(".")[2].replace("_", "-")
        raise SettingsError(
            f"--{option} counts tokens, for which a tokenizer is needed; name one with --model"
        )
    return {name: default_of(name) if value is None else value for name, value in given.items()}


def _windowing(source: str, sizes: dict[str, int]) -> Windowing:
    from lightwork.report.dataset_inspection import Windowing
    from lightwork.report.dataset_windows import Batching
    from lightwork.tasks.extractive.windows import WindowOptions

    return Windowing(
        source=source,
        options=WindowOptions(
            sizes["data.max_length"], sizes["data.stride"], sizes["data.max_question_length"]
        ),
        batching=Batching(
            batch_windows=sizes["train.batch_size"],
            micro_batch_tokens=default_of("train.micro_batch_tokens"),
            seed=default_of("train.seed"),
        ),
    )


def _target(out: Path, files: list[Path], overwrite: bool) -> Path:
    """The file to write, without links; RunError where it may not be written."""
    if out.suffix != ".json":
        raise RunError(f"--write: {out} does not end in .json; what is written is one JSON file")
    try:
        target = out.expanduser().resolve()
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(target.with_name(f".{target.name}.part"))  # the longest name that is needed
    except (OSError, RuntimeError) as error:  # RuntimeError: ~nobody
        reason = getattr(error, "strerror", None) or error
        raise RunError(f"--write: {out} cannot be written: {reason}") from None
    label = f"--write: {named(str(out), target)}"
    if any(target == file.resolve() for file in files):
        raise RunError(f"{label} is one of the files to read; name another")
    if target.exists() and not target.is_file():
        what = "a folder; name a file in it" if target.is_dir() else "no regular file"
        raise RunError(f"{label} is {what}")
    if target.exists() and not overwrite:
        raise RunError(f"{label} exists already; add --overwrite to replace it")
    if reason := folder_reason(target.parent):
        raise RunError(f"--write: the folder {target.parent} {reason}")
    return target
