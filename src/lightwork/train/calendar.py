"""When the duties between steps are due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Calendar:
    """When duties are due. Steps count updates; None: never for this reason."""

    last_step: int
    epoch_steps: int
    save_every_s: float | None
    save_every_steps: int | None
    keep: int
    evaluate_every_steps: int | None
    """None: at the end of every epoch."""
    patience: int | None = None
    """Evaluations without a better score after which training stops; None: never."""
    snapshot_every_steps: int | None = None
    check_every_steps: int | None = None
    """Steps between two checks that ranks hold the same, besides those before every checkpoint."""
    ends_s: float | None = None
    """When the run has had its time, on the monotonic clock; None: it may take any."""
    stop_signal: Callable[[], int] = lambda: 0
    """The number of the signal that asked this process to leave; 0: none did."""

    def evaluate_after(self, step: int) -> bool:
        """Whether the model is scored after this step."""
        return step == self.last_step or step % (self.evaluate_every_steps or self.epoch_steps) == 0

    def save_after(self, step: int) -> bool:
        """Whether a checkpoint is written after this step, whatever the clock says."""
        return step == self.last_step or _every(self.save_every_steps, step)

    def check_after(self, step: int) -> bool:
        """Whether ranks are checked to hold the same after this step, checkpoint or not."""
        return _every(self.check_every_steps, step) or self.snapshot_after(step)

    def snapshot_after(self, step: int) -> bool:
        """Whether the state is kept in memory after this step, where no checkpoint is written."""
        return _every(self.snapshot_every_steps, step)


def _every(steps: int | None, step: int) -> bool:
    return steps is not None and step % steps == 0
