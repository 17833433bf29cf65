"""Too little memory: told from other failures, let go of, and found out about beforehand."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import psutil
import torch

from lightwork.comm.group import Group
from lightwork.data.loader import Loader, Piece
from lightwork.errors import StepError
from lightwork.train.model import Model

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux says what a container may hold; "max", or a huge number, where it may all."""

_WORDS = (
    "out of memory",
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""What is said where there is no exception of its own for it."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether less at a time would have helped."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def total_bytes(device: torch.device, local_ranks: int) -> int:
    """CUDA: the memory of the device. CPU: this rank's part of the machine's or container's."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    limits = [_number(path) for path in _CGROUP_LIMITS]
    return min(psutil.virtual_memory().total, *limits) // local_ranks


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # none there, or "max"
        return sys.maxsize


def let_go(device: torch.device) -> None:
    """Give back what a failed try held. Its exception must be forgotten: it holds the tensors."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def fit(group: Group, model: Model, loader: Loader, top_tokens: int | None) -> None:
    """Let ``loader`` cut micro-batches as large as the memory of every rank holds, at most.

    Tried out before the first step, with the longest window many times over, while room is kept
    for the two moments of AdamW. What is found is within an eighth of what there is. No ``grad`` is
    touched. ``top_tokens``: padded tokens to which it is not worth going beyond.

    Raises:
        StepError: on all ranks together, where not even one window fits or the model fails.
    """
    cutting = loader.cutting
    length = loader.largest(1).padded_tokens
    fits, tried = 0, -(-cutting.batch_size // cutting.shares)
    if top_tokens is not None:
        tried = max(1, min(tried, top_tokens // length))
    fails = tried + 1
    while fails - fits > max(1, fits // 8):
        if _all_fit(group, model, loader, tried):
            fits = tried
        else:
            fails = tried
        tried = (fits + fails) // 2
    if not fits:
        error = StepError(
            f"not even one window of {length} tokens fits in memory; "
            "train.activation_checkpointing=true needs less, as does a smaller data.max_length or "
            "model"
        )
        error.repeats = True
        raise error
    loader.cut_to(fits * length)


def _all_fit(group: Group, model: Model, loader: Loader, count: int) -> bool:
    problem = None
    try:
        fits = _fits(model, loader.largest(count))
    except Exception as error:  # noqa: BLE001 - told to all ranks, who stop together
        fits, problem = False, f"{type(error).__name__}: {error}"
    let_go(model.device)
    told = group.gather_json([fits, problem])
    problems = [f"rank {rank}: {text}" for rank, (_, text) in enumerate(told) if text]
    if problems:
        raise StepError(f"the model fails before the first step. {'; '.join(problems)}")
    return all(fits for fits, _ in told)


def _fits(model: Model, piece: Piece) -> bool:
    learned = [p for p in model.module.parameters() if p.requires_grad]
    try:
        moments = [torch.empty_like(p) for p in learned for _ in range(2)]
        torch.autograd.grad(
            model.loss(model.module, piece, model.on_device(piece.tensors)),
            learned,
            allow_unused=True,
        )
        del moments
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True
