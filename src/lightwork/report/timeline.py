"""How far a run has come, by the checkpoints it has written."""

from __future__ import annotations

import re
from pathlib import Path

_CHECKPOINT = re.compile(r"step-(\d{6,})")


def checkpoint_steps(run: Path) -> list[int]:
    """Steps of the whole checkpoints, oldest first; the manifest is what is written last."""
    found = (run / "checkpoints").glob("step-*/manifest.json")
    steps = (_CHECKPOINT.fullmatch(path.parent.name) for path in found)
    return sorted(int(match[1]) for match in steps if match)


def best_step(run: Path) -> int | None:
    """The step of the checkpoint that ``best`` points to."""
    try:
        pointed = _CHECKPOINT.fullmatch((run / "best").readlink().name)
    except OSError:
        return None
    return int(pointed[1]) if pointed else None
