"""The shared collection of paths that cannot work, through the commands that take them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightwork.comm.supervisor import Launch


def arguments_for(kind: str, given: str) -> tuple[str, ...]:
    """The command that takes such a path here."""
    if kind == "resume":
        return ("evaluate", given)
    if kind == "output_dir":
        return ("train", "s.yaml", "--run", given)
    return ("train", "s.yaml", f"data.train={given}")


@pytest.mark.shared
def test_every_bad_path_is_one_line_before_anything_starts(
    shared: Path, folder: Path, command: Callable[..., Any], launches: list[Launch]
) -> None:
    case = shared / "cases" / "46-bad-paths"
    (folder / "a_dir").mkdir()
    for name in ("a_file", "empty.json"):
        shutil.copy(case / name, folder / name)
    for entry in json.loads((case / "input.json").read_text()):
        ((kind, given),) = entry.items()
        ended = command(*arguments_for(kind, given))
        assert ended.code == 2, entry
        assert len(ended.err.splitlines()) == 1, ended.err
        assert ended.err.startswith("error: ")
        assert given in ended.err
    assert launches == []
