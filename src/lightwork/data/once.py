"""Things that are made once and then only read: by content key, atomically, by one process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightwork.disk import only_one, replacing
from lightwork.errors import DataError


def content_key(**facts: Any) -> str:
    """20 hex digits that change when any of ``facts`` (JSON-able) does."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:20]


def build_once(path: Path, build: Callable[[Path], None], say: Callable[[str], None]) -> bool:
    """Make the file or folder ``path`` unless it is there; True when this call made it.

    ``build(temporary)`` writes to a temporary place in the same folder, which becomes ``path`` by
    a rename: a process that is killed leaves no half of it under its name. Processes that want the
    same path wait for the one that makes it, for as long as that takes, and ``say`` so.
    """
    if path.exists():
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with only_one(path.with_name(path.name + ".lock"), say):
            if path.exists():
                return False
            with replacing(path) as temporary:
                build(temporary)
    except OSError as error:
        raise DataError(
            f"cannot write {path} ({error.strerror or error}); "
            "point data.cache to a folder with room that you may write to"
        ) from error
    return True
