"""``lightwork export``: what a run has learned as a folder for others."""

from __future__ import annotations

import os
import shlex
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.evaluate import check_checkpoints
from lightwork.errors import RunError
from lightwork.report.card import EXPORTED
from lightwork.settings import load_settings, locate, named, read_run

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier export in that folder.")
]

EXPORTS = (
    "*config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "chat_template.*",
    "README.md",
    EXPORTED,
)
"""What the files of an export may be called; --overwrite removes nothing else."""


def export(run: RunArgument, out: Out, overwrite: Overwrite = False) -> None:
    """Write the best model of a run as a Hugging Face folder with a model card."""
    run = run.expanduser()
    read_run(run)
    settings = load_settings(locate(run)[0])
    check_checkpoints(run)
    target = _target(run, out, overwrite)
    from lightwork.assembly.exporting import run_export
    from lightwork.telemetry.logs import logging_to

    with logging_to(None, rank=0):
        done = run_export(run, target, settings)
    name = shlex.quote(str(out))
    typer.echo(f"step {done.step} of {run} is in {out}")
    typer.echo(f'next: lightwork answer {name} --context notes.txt "..."')
    typer.echo(f"      hf upload OWNER/NAME {name}    (to share it on the Hub)")


def _target(run: Path, out: Path, overwrite: bool) -> Path:
    """The folder to write, without links; RunError where it may not be written."""
    target = out.expanduser().resolve()
    label = named(str(out), target)
    checkpoints = (run / "checkpoints").resolve()
    if target == checkpoints or checkpoints in target.parents:
        raise RunError(
            f"{label} lies among the checkpoints of the run, which a training sweeps; name a "
            "folder outside"
        )
    if target == Path.cwd():
        raise RunError(f"{label} is where you are; name a folder in it, such as {out / 'model'}")
    try:
        entries = sorted(target.iterdir()) if target.exists() else []
    except NotADirectoryError:
        raise RunError(f"{label} is a file, not a folder; name another") from None
    except OSError as error:
        raise RunError(f"{label} cannot be read: {error.strerror}") from None
    if entries and not overwrite:
        raise RunError(f"{label} holds files already; add --overwrite to replace an earlier export")
    if entries:
        _check_export(label, entries)
    _check_parent(label, target)
    return target


def _check_export(label: str, entries: list[Path]) -> None:
    """Everything in the folder goes, so all of it must come from an export."""
    names = [path.name for path in entries]
    others = [
        path.name
        for path in entries
        if not path.is_file() or not any(fnmatch(path.name, known) for known in EXPORTS)
    ]
    if EXPORTED not in names or others:
        why = f"{others[0]}, which is not of an export" if others else f"no {EXPORTED}"
        raise RunError(
            f"{label} is not an earlier export (it has {why}), so --overwrite leaves it alone; "
            "name another folder"
        )


def _check_parent(label: str, target: Path) -> None:
    """The folder is written beside its place, so what is above it must be writable."""
    above = next(path for path in target.parents if path.exists())
    if not above.is_dir():
        raise RunError(f"{label} lies inside {above}, which is a file")
    if not os.access(above, os.W_OK | os.X_OK):
        raise RunError(f"{label} cannot be made: {above} is not writable")
