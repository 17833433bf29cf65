"""Several new files at once: all of them whole, or none; nothing that exists is touched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from lightwork.errors import RunError
from lightwork.settings import folder_reason, named


def refuse_existing(paths: Iterable[Path]) -> None:
    """Raise RunError when any of ``paths`` is there, or can be seen to have no place."""
    for path in paths:
        label = named(str(path), path.absolute())
        if os.path.lexists(path):
            what = "is a folder; name a file in it" if path.is_dir() else "exists already"
            raise RunError(f"{label} {what}; name another file with --out FILE.yaml")
        folder = path.absolute().parent
        if folder.exists() and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise RunError(f"{label} cannot be written there; name another with --out FILE.yaml")


def write_new(contents: Mapping[Path, bytes]) -> None:
    """Write ``contents``, in order; the last file appears last.

    Raises RunError when one cannot be written or has appeared meanwhile; then none stays.
    """
    made: list[Path] = []
    path = next(iter(contents))
    temporary = {path: path.with_name(f".{path.name}.{os.getpid()}.new") for path in contents}
    try:
        for path, content in contents.items():
            reason = folder_reason(path.absolute().parent)
            if reason:
                raise RunError(f"the folder {path.absolute().parent} {reason}")
            _write(temporary[path], content)
        for path in contents:
            refuse_existing([path])
            temporary[path].replace(path)
            made.append(path)
    except BaseException as error:
        for left in [*made, *temporary.values()]:
            with suppress(OSError):
                left.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RunError(f"{path} cannot be written: {error.strerror or error}") from None
        raise


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
