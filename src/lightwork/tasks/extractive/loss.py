"""The span loss: a sum over windows whose value does not depend on padding or micro-batches."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def masked(logits: Tensor, allowed: Tensor) -> Tensor:
    """``logits`` with the lowest finite value of their own dtype wherever not ``allowed``.

    Filling, never adding: an added constant can lose against large logits, one like -1e9 does not
    fit in half precision, and minus infinity gives NaN in a row where nothing is allowed.
    """
    return logits.masked_fill(~allowed, torch.finfo(logits.dtype).min)


def span_loss(start_logits: Tensor, end_logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Sum over windows of ``weight * (cross-entropy of start + of end) / 2``, in float32.

    Logits are ``[windows, tokens]``. Of ``batch`` are taken ``allowed`` (same shape: context
    tokens and the classification token), ``start``, ``end`` and ``weight`` (``[windows]``).
    """
    losses = [
        cross_entropy(masked(logits.float(), batch["allowed"]), batch[label], reduction="none")
        for logits, label in ((start_logits, "start"), (end_logits, "end"))
    ]
    return (batch["weight"] * (losses[0] + losses[1]) / 2).sum()
