"""What a person's own loop hands over, checked; every refusal says what to do instead."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

WHY_COUNT = (
    "run.backward needs the sum of the losses and how many there are: "
    "run.backward(loss_sum, count). A mean will not do: with 3 tokens on one rank and 1 on another "
    "the mean of the two means weighs that one token as much as the three together. If you have "
    "a mean over n, give mean * n and n."
)


def loss_and_count(loss_sum: object, count: Any) -> tuple[Tensor, float]:
    """The loss as a scalar tensor with a graph, and its count as a number that is not negative."""
    if not isinstance(loss_sum, Tensor) or loss_sum.numel() != 1:
        shape = list(loss_sum.shape) if isinstance(loss_sum, Tensor) else type(loss_sum).__name__
        raise TypeError(f"the loss must be one number in a tensor, not {shape}; sum it up first")
    if not loss_sum.requires_grad:
        raise TypeError(
            "the loss has no graph to go back through: was it made under torch.no_grad(), or from "
            "loss.item()?"
        )
    if count is None:
        raise TypeError(WHY_COUNT)
    try:
        number = float(count)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"the count must be one number, not {count!r}") from None
    if number < 0 or not math.isfinite(number):
        raise ValueError(f"the count of a loss must be 0 or more and finite, not {number}")
    return loss_sum, number


def check_model(model: object) -> None:
    """Raise TypeError for what cannot be replicated."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"run.replicate takes a torch.nn.Module, not {type(model).__name__}")
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        raise TypeError(
            f"the model is wrapped in {type(model).__name__}, which would share the gradients a "
            "second time; give run.replicate the bare model"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TypeError("the model has no parameter that can be trained (requires_grad)")
