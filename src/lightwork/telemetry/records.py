"""What is written down for every step: one object a line, units in the names."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class StepRecord:
    """One step as one rank saw it. ``loss`` and ``grad_norm`` are of the whole batch."""

    step: int
    epoch: int
    rank: int
    attempt: int
    time_unix_s: float
    loss: float
    """Mean loss per window of the batch, over all ranks."""
    rank_loss: float | None
    """Mean loss per window of this rank's part; None when it had none."""
    grad_norm: float
    """Norm of the summed gradient, before clipping."""
    rank_grad_norm: float | None
    """Norm of this rank's own gradient before it was summed; None when not measured."""
    learning_rate: float
    loss_scale: float
    """What the loss was multiplied by before backward; 1 but in float16."""
    applied: bool
    """Whether there was an update; otherwise the batch was left out."""
    windows: int
    """Windows of this rank."""
    batch_windows: int
    """Windows of the batch, over all ranks."""
    real_tokens: int
    padded_tokens: int
    data_s: float
    """Waiting for the data."""
    forward_s: float
    backward_s: float
    sync_s: float
    """Standing still for other ranks' gradients after backward had ended."""
    optimizer_s: float
    """Clipping and the optimizer."""
    step_s: float
    """The whole step; what the parts leave over is small duties and messages."""
    memory_bytes: int
    """CPU: resident memory of the process. CUDA: the most the device held for tensors so far."""

    def as_json(self) -> dict[str, Any]:
        """The record and the rates that follow from it."""
        rates = {
            "windows_per_s": self.windows / self.step_s,
            "batch_windows_per_s": self.batch_windows / self.step_s,
            "real_tokens_per_s": self.real_tokens / self.step_s,
            "padded_tokens_per_s": self.padded_tokens / self.step_s,
        }
        return {**asdict(self), **rates}
