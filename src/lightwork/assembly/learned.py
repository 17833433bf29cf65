"""Which checkpoint of a run stands for what it has learned."""

from __future__ import annotations

import logging
from pathlib import Path

from lightwork.errors import RunError
from lightwork.train.checkpoint import Checkpoints, problem_of

log = logging.getLogger("lightwork")


def best_of(run: Path) -> Path:
    """The best checkpoint of ``run``, or the newest that verifies where none was scored.

    Raises RunError when the run has none, CheckpointError when it has some and none verifies.
    """
    checkpoints = Checkpoints(run)
    best = checkpoints.best()
    if best is not None:
        wrong = problem_of(best)
        if wrong is None:
            return best
        log.warning("the best checkpoint, %s, is damaged (%s); the newest is used", best, wrong)
    found = checkpoints.newest(log.warning)
    if found is None:
        raise RunError(f"{run} has no checkpoint yet; let it train until it has written one")
    return found
