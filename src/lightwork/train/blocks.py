"""What training does to the blocks of a model: compute them again in backward, compile them.

Both replace the ``forward`` of each block in place, so parameters keep their names and the model
is saved, summed and updated as before. Without gradients, as in an evaluation, a block computes as
it always did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from lightwork.errors import SettingsError

log = logging.getLogger("lightwork")

Forward = Callable[..., Any]
"""``forward(block, *args, **kwargs)``."""


def change_blocks(
    blocks: Sequence[nn.Module], recompute: bool, compiled: bool, backend: Any = "inductor"
) -> None:
    """Let ``blocks`` compute otherwise in training.

    ``recompute``: keep only what goes into a block, and compute the rest again in backward (Chen
    et al.: "Training Deep Nets with Sublinear Memory Cost", 2016), from the same random numbers:
    gradients have the same bits. ``compiled``: each block by itself, with sizes left open, so that
    its gradients are there when its own backward has run and not when that of all has, and one
    piece of code serves all lengths. Raises SettingsError when there are no blocks.
    """
    if not (recompute or compiled):
        return
    if not blocks:
        name = "train.activation_checkpointing" if recompute else "train.compile"
        raise SettingsError(
            f"{name} is true, but no blocks are known of this kind of model; set {name}=false"
        )
    forward: Forward = _plain
    if compiled:
        forward = _compiled(backend)
    if recompute:
        forward = partial(_recomputed, forward)
    for block in blocks:
        # Not a closure: with it the blocks of a copy would compute by those of the original.
        block.forward = partial(_in_training, forward, block)


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


def _compiled(backend: Any) -> Forward:
    import torch._dynamo  # takes a second

    torch._dynamo.config.optimize_ddp = False  # it cuts whole models where buckets end
    compiled = torch.compile(_plain, dynamic=True, backend=backend)
    told = False

    def forward(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal told
        if not told:
            told = True
            log.info("compiling the blocks: the first step takes a minute or more, later ones may")
        try:
            return compiled(block, *args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise SettingsError(_not_compiled(block, error)) from error

    return forward


def _not_compiled(block: nn.Module, error: Exception) -> str:
    inner = getattr(error, "inner_exception", error)
    reason = next((line for line in str(inner).splitlines() if line.strip()), "no reason given")
    return (
        f"train.compile: {type(block).__name__} cannot be compiled here ({type(inner).__name__}: "
        f"{reason.strip()[:300]}). PyTorch needs a C++ compiler such as g++ for it, on a GPU also "
        "Triton; or set train.compile=false"
    )
