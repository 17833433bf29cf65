"""Which checkpoint of a run stands for what it has learned."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from lightwork.errors import RunError
from lightwork.manifest import problem_of
from lightwork.settings import run_id_of
from lightwork.telemetry.lines import read_evaluations
from lightwork.train.checkpoint import Checkpoints, read_state

log = logging.getLogger("lightwork")


@dataclass(frozen=True)
class Learned:
    """What a run has learned, and what its evaluations tell about it."""

    checkpoint: Path
    impossible: bool
    """Whether the model learned that an answer can be missing."""
    no_answer_threshold: float
    """By how much "no answer" must exceed the best text, in logits: what gave the best F1 on the
    held-out questions at that step; 0 where they all have an answer, or nothing was better than
    never answering.
    """

    @property
    def model(self) -> Path:
        """The folder of the model and its tokenizer."""
        return self.checkpoint / "model"


def best_of(run: Path) -> Learned:
    """The best checkpoint of ``run``, or the newest that verifies where none was scored.

    Raises RunError when the run has none, CheckpointError when it has some and none verifies.
    """
    checkpoint = _best_checkpoint(run)
    state = read_state(checkpoint)
    scores = read_evaluations(run).get(int(state.get("step", -1)), {})
    return Learned(
        checkpoint=checkpoint,
        impossible=bool(state.get("impossible")),
        no_answer_threshold=float(scores.get("no_answer_threshold", 0.0)),
    )


def _best_checkpoint(run: Path) -> Path:
    checkpoints = Checkpoints(run, run_id_of(run))
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
