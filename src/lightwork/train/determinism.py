"""The one place that tells PyTorch how exactly to compute, and what it says where it cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lightwork.errors import StepError

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
_FIXED_WORKSPACES = (":4096:8", ":16:8")
"""With these cuBLAS gives equal bits whatever runs beside it (its manual, "Reproducibility")."""
_REFUSED = re.compile(r"(\S+) does not have a deterministic implementation")


def set_arithmetic(device: str, *, deterministic: bool) -> None:
    """Switch this process to ``deterministic`` kernels in full precision, or to fast ones.

    To be called before anything touches CUDA, since cuBLAS reads its workspace once. ``device`` is
    ``cpu`` or ``cuda:N``. On CUDA the fast ones multiply float32 matrices in TF32 (10 bits of
    mantissa instead of 23); on a CPU they are as PyTorch has them.
    """
    cuda = device != "cpu"
    if not deterministic:
        if cuda:
            torch.backends.cuda.matmul.fp32_precision = "tf32"
        return
    if cuda and os.environ.get(CUBLAS) not in _FIXED_WORKSPACES:
        os.environ[CUBLAS] = _FIXED_WORKSPACES[0]
    torch.use_deterministic_algorithms(True)
    # Nobody reads memory before writing it; filling it only costs.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    refuse_tf32()


def refuse_tf32() -> None:
    """From now on this process multiplies float32 numbers in float32."""
    torch.backends.fp32_precision = "ieee"  # type: ignore[attr-defined]


@contextmanager
def refusals_named() -> Iterator[None]:
    """Say in our words that an operation has no deterministic form, wherever PyTorch refused it."""
    try:
        yield
    except RuntimeError as error:
        refused = _REFUSED.search(str(error))
        if refused is None:
            raise
        told = StepError(
            f"the model uses {refused[1]}, which PyTorch cannot compute to the same bits every "
            "time, as train.deterministic asks for, and sync.strategy tree with it. Set "
            "train.deterministic=false and another sync.strategy, or take a model without this "
            "operation."
        )
        told.joint = False  # as far as this rank knows
        told.repeats = True
        raise told from error
