"""``lightwork sample``: write the built-in data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lightwork.errors import RunError

Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write two files.")]


def sample(folder: Folder = Path("demo")) -> None:
    """Write the built-in sample: questions about invented people and places."""
    from lightwork.tasks.extractive.sample import write_sample

    try:
        for path in write_sample(folder.expanduser()):
            typer.echo(path)
    except OSError as error:
        path = error.filename or folder
        raise RunError(
            f"cannot write {path}: {error.strerror}; delete it or name another folder"
        ) from None
