"""A folder that says what is in it, so that whatever is missing, cut, changed or added shows.

``manifest.json`` is written last. It holds the size and the SHA-256 of every other file, and a
SHA-256 of itself. It is one particular text for what it says: whoever reads it writes it again and
compares, so no byte of it can change without a word either.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightwork.disk import file_digest

FORMAT = 2
MANIFEST = "manifest.json"
_OWN = "sha256"

Files = Mapping[str, tuple[int, str]]
"""Path below the folder -> size in bytes and SHA-256 in hex digits."""


MEMORY = Path("/dev/shm")


def own_memory(memory: Path = MEMORY) -> Path:
    """Where this user's snapshots lie; everybody may write beside it."""
    return memory / f"lightwork-{os.getuid()}"


def describe(folder: Path) -> Files:
    """What is in ``folder`` now, but for the manifest itself."""
    return {name: (path.stat().st_size, file_digest(path)) for name, path in _files(folder).items()}


def manifest(files: Files, **facts: Any) -> bytes:
    """The content of ``manifest.json``; ``facts`` are JSON and stand beside the files."""
    values = {"format": FORMAT, **facts, "files": files}
    return _text({**values, _OWN: hashlib.sha256(_text(values)).hexdigest()})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The facts, the format and the files of the manifest in ``folder``.

    Raises OSError where it cannot be read, ValueError where it is not as it was written.
    """
    content = (folder / MANIFEST).read_bytes()
    values = json.loads(content)
    if not isinstance(values, dict) or not isinstance(values.get("files"), dict):
        raise ValueError("it does not list files")
    if values.pop("format", None) != FORMAT:
        raise ValueError(f"its format is not {FORMAT}, which this version of lightwork reads")
    values.pop(_OWN, None)
    if manifest(**values) != content:
        raise ValueError("its content has changed")
    return values


def problem_of(folder: Path) -> str | None:
    """What is wrong with the files in ``folder``, in words; None when every one verifies.

    Files in it whose names begin with a dot do not matter: nothing here reads those.
    """
    try:
        expected = read_manifest(folder)["files"]
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    try:
        return _difference(_files(folder), expected)
    except OSError as error:
        return f"{error.filename or 'a file in it'} cannot be read ({error.strerror})"


def _difference(found: Mapping[str, Path], expected: Files) -> str | None:
    for name, (size, digest) in expected.items():
        path = found.get(name)
        if path is None:
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if file_digest(path) != digest:
            return f"the content of {name} has changed"
    added = [name for name in found if name not in expected]
    return f"{added[0]} does not belong to it; move that away" if added else None


def _files(folder: Path) -> dict[str, Path]:
    """Path below ``folder`` -> path, of all files that are read, sorted."""
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        path.as_posix(): folder / path
        for path in found
        if path.as_posix() != MANIFEST and not any(part.startswith(".") for part in path.parts)
    }


def _text(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()
