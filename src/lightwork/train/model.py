"""The model as training sees it, and the loss of one micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from lightwork.data.loader import Piece
from lightwork.train.precision import Precision

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightwork.tasks.contract import Batch, Task


@dataclass(frozen=True)
class Model:
    """The model as training sees it."""

    module: nn.Module
    """The bare module: evaluation and checkpoints use this one."""
    trained: nn.Module
    """What the GradientSync gave back to be called in training."""
    task: Task
    device: torch.device
    example_ids: Callable[[list[int]], list[str]]
    """The ids of the examples that windows come from, for messages."""
    precision: Precision = field(default_factory=Precision)
    """Of training; scores are computed in float32."""

    def on_device(self, batch: Batch) -> Batch:
        """The batch on the model's device."""
        return {name: t.to(self.device, non_blocking=True) for name, t in batch.items()}

    def loss(self, module: nn.Module, piece: Piece, batch: Batch) -> Tensor:
        """The summed loss of a micro-batch, whose tensors are ``batch`` on the model's device,
        drawing from its own random stream."""
        torch.manual_seed(piece.seed)
        with self.precision.computing():
            return self.task.loss(self.task.forward(module, batch), batch)
