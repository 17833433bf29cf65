"""What training does to the blocks of a model: compute them again in backward.

It replaces the ``forward`` of each block in place, so parameters keep their names and the model
is saved, summed and updated as before. Without gradients, as in an evaluation, a block computes as
it always did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from lightwork.errors import SettingsError

Forward = Callable[..., Any]
"""``forward(block, *args, **kwargs)``."""


def change_blocks(blocks: Sequence[nn.Module], recompute: bool) -> None:
    """Let ``blocks`` compute otherwise in training.

    ``recompute``: keep only what goes into a block, and compute the rest again in backward (Chen
    et al.: "Training Deep Nets with Sublinear Memory Cost", 2016), from the same random numbers:
    gradients have the same bits. Raises SettingsError when there are no blocks.
    """
    if not recompute:
        return
    if not blocks:
        name = "train.activation_checkpointing"
        raise SettingsError(
            f"{name} is true, but no blocks are known of this kind of model; set {name}=false"
        )
    forward = partial(_recomputed, _plain)
    for block in blocks:
        # A bound method, so that a copy of the model has one of its own.
        block.forward = MethodType(partial(_in_training, forward), block)


def _in_training(forward: Forward, block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    trains = block.training and torch.is_grad_enabled()
    return (forward if trains else _plain)(block, *args, **kwargs)


def _plain(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return type(block).forward(block, *args, **kwargs)


def _recomputed(forward: Forward, block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    names, count = tuple(kwargs), len(args)

    def again(*values: Any) -> Any:
        named = dict(zip(names, values[count:], strict=True))
        return forward(block, *values[:count], **named)

    # All in a row: by these ``checkpoint`` finds the devices whose random numbers it has to keep.
    values = (*args, *kwargs.values())
    return checkpoint(again, *values, use_reentrant=False, preserve_rng_state=True)
