"""In what precision the model computes; weights, gradients and the optimizer stay in float32.

Mixed precision as in Micikevicius et al., "Mixed Precision Training" (2018), by torch's autocast.
float16 reaches down to 6e-8 only, so there the loss is multiplied by a scale that makes small
gradients large, and divided out of their sum. The scale follows what it meets: it falls when the
sum is not finite, and rises after many steps in which it was.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from lightwork.comm.group import Group
from lightwork.errors import LaunchError

Name = Literal["fp32", "bf16", "fp16"]

FIRST_SCALE, LARGEST_SCALE = 2.0**16, 2.0**24
GROWTH_STEPS = 2000
"""Updates without an overflow after which the scale doubles."""

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """How forward and backward compute, and by what the loss is multiplied."""

    def __init__(self, name: Name = "fp32", device: str = "cpu") -> None:
        self.name = name
        self._device = torch.device(device).type
        self._scaled = name == "fp16"
        self.loss_scale = FIRST_SCALE if self._scaled else 1.0
        """A power of two, so that dividing by it is exact."""
        self._steady_steps = 0
        self._before = self.loss_scale

    def computing(self) -> AbstractContextManager[object]:
        """Around forward and loss."""
        if self.name == "fp32":
            return nullcontext()
        return torch.autocast(self._device, dtype=_DTYPES[self.name])

    def begin(self) -> None:
        """A step begins, with a batch that was not tried before."""
        self._before = self.loss_scale

    def lower(self) -> bool:
        """The summed gradient was not finite: whether the step is worth another try."""
        if self.loss_scale <= 1.0:
            self.loss_scale = self._before  # no scale helps: then it was not the scale's fault
            return False
        self.loss_scale /= 2
        self._steady_steps = 0
        return True

    def applied(self) -> None:
        """An update was made with this scale."""
        if not self._scaled:
            return
        self._steady_steps += 1
        if self._steady_steps >= GROWTH_STEPS:
            self.loss_scale = min(2 * self.loss_scale, LARGEST_SCALE)
            self._steady_steps = 0

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"loss_scale": self.loss_scale, "steady_steps": self._steady_steps}

    def load(self, state: dict[str, float]) -> None:
        """Take over what :meth:`state` gave; of another precision it means nothing here."""
        if self._scaled:
            self.loss_scale = state.get("loss_scale", FIRST_SCALE)
            self._steady_steps = int(state.get("steady_steps", 0))


def chosen(group: Group, asked: Literal["auto", "fp32", "bf16", "fp16"], device: str) -> Name:
    """The precision for all ranks; ``auto`` is bf16 where every rank has a GPU that can do it.

    Raises:
        LaunchError: on all ranks together, where bf16 was asked for and a GPU cannot.
    """
    unable = [rank for rank, able in enumerate(group.gather_json(_has_bf16(device))) if not able]
    if asked == "auto":
        return "fp32" if unable or device == "cpu" else "bf16"
    if asked == "bf16" and unable:
        raise LaunchError(
            f"train.precision is bf16, but the GPU of rank {unable[0]} has no bf16; use "
            "train.precision=fp16 or fp32"
        )
    return asked


def _has_bf16(device: str) -> bool:
    """A CPU always has it, if only slowly; emulation on a GPU is slower than float32."""
    if torch.device(device).type == "cpu":
        return True
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))
