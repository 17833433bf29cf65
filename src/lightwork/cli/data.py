"""``lightwork data``: everything about files of questions, without training."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightwork.errors import RunError, SettingsError
from lightwork.settings import check_files, default_of, folder_reason, named

if TYPE_CHECKING:
    from lightwork.report.dataset_inspection import Windowing


class OnMismatch(str, Enum):
    """What happens to answers that are not at their place."""

    drop = "drop"
    repair = "repair"


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
    int | None, typer.Option(metavar="N", help="Tokens of a window, as data.max_length.")
]
Stride = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens that windows share, as data.stride.")
]
MaxQuestionLength = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens of a question, as data.max_question_length."),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Windows of a batch, as train.batch_size.")
]
Mismatch = Annotated[
    OnMismatch | None,
    typer.Option(help="Answers not at their place: drop (the default), or repair as --write does."),
]
Write = Annotated[
    Path | None, typer.Option(metavar="OUT", help="Write the set as one clean SQuAD file.")
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
    mode = on_mismatch or (OnMismatch.drop if write is None else OnMismatch.repair)
    from lightwork.report.dataset_inspection import inspect
    from lightwork.report.dataset_text import lines_of
    from lightwork.telemetry.logs import logging_to

    with logging_to(None, rank=0):
        report = inspect(
            train_files,
            dev_files,
            on_mismatch=mode.value,
            windowing=None if model is None else _windowing(model, sizes),
            target=target,
        )
    typer.echo(json.dumps(report.as_json(), indent=2) if as_json else "\n".join(lines_of(report)))


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
    target = out.expanduser().resolve()
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
