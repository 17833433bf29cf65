"""How far a run has come, by the checkpoints it has written."""

from __future__ import annotations

import re
from pathlib import Path

_CHECKPOINT = re.compile(r"step-(\d{6,})")


def checkpoint_folders(run: Path) -> list[tuple[int, Path]]:
    """Step and folder of everything that looks like a checkpoint, oldest first."""
    found = [(_CHECKPOINT.fullmatch(path.name), path) for path in run.glob("checkpoints/step-*")]
    return sorted((int(match[1]), path) for match, path in found if match and path.is_dir())


def checkpoint_steps(run: Path) -> list[int]:
    """Steps of the whole checkpoints, oldest first; the manifest is what is written last."""
    return [step for step, path in checkpoint_folders(run) if (path / "manifest.json").exists()]


def best_step(run: Path) -> int | None:
    """The step of the checkpoint that ``best`` points to."""
    try:
        pointed = _CHECKPOINT.fullmatch((run / "best").readlink().name)
    except OSError:
        return None
    return int(pointed[1]) if pointed else None
