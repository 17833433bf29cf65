"""What this machine can carry: how many ranks, and how many tokens at once."""

from __future__ import annotations

from dataclasses import dataclass

from lightwork.planner.models import ModelShape

DEFAULT_MICRO_BATCH_TOKENS = 8192
MOST_CPU_RANKS = 8

_STATE_BYTES = 16
"""Of every parameter: weight, gradient and AdamW's two means, in float32."""

_USED = 0.5
"""Part of the memory that is planned with; the estimates are rough."""


@dataclass(frozen=True)
class Machine:
    """Plain facts about this machine."""

    gpus: int
    gpu_bytes: int | None
    """Memory of the smallest GPU; None where it is not known."""
    cores: int
    memory_bytes: int
    """What is available of the main memory."""


def choose_ranks(machine: Machine, shape: ModelShape, batch_size: int) -> tuple[int, str]:
    """How many ranks to start here, and why.

    A rank gets at least two windows of a batch, on the CPU at least one core, and room for the
    model with its optimizer state.
    """
    most = max(1, batch_size // 2)
    if machine.gpus:
        ranks = min(machine.gpus, most)
        why = f"one for each of {machine.gpus} GPUs" if ranks > 1 else "one GPU"
        if ranks < machine.gpus:
            why = f"{machine.gpus} GPUs, but only {batch_size} windows in a batch"
        return ranks, why
    wanted = machine.cores if machine.cores < 4 else machine.cores // 2
    rank_bytes = shape.parameters * _STATE_BYTES + 1024 * _token_bytes(shape, 512) + (1 << 30)
    room = max(1, int(machine.memory_bytes * 0.8 / rank_bytes))
    ranks = min(wanted, most, room, MOST_CPU_RANKS)
    cores = f"{machine.cores} CPU core{'s' if machine.cores > 1 else ''}"
    return ranks, f"no GPU; {cores} are shared among them" if ranks > 1 else f"no GPU; {cores}"


def micro_batch_tokens(machine: Machine, shape: ModelShape, max_length: int, ranks: int) -> int:
    """Padded tokens of one forward and backward that fit in about half of the memory.

    A power of two, at least two windows, and never more than the default on the CPU, where more
    is no faster. Where the memory of the GPUs is not known it is the default.
    """
    if machine.gpus:
        if machine.gpu_bytes is None:
            return DEFAULT_MICRO_BATCH_TOKENS
        room, most = machine.gpu_bytes, 4 * DEFAULT_MICRO_BATCH_TOKENS
    else:
        room, most = machine.memory_bytes // ranks, DEFAULT_MICRO_BATCH_TOKENS
    left = _USED * room - shape.parameters * _STATE_BYTES
    fitting = left / _token_bytes(shape, max_length)
    tokens = 2 * max_length
    while tokens & (tokens - 1):
        tokens += tokens & -tokens  # the next power of two
    while tokens < most and 2 * tokens <= fitting:
        tokens *= 2
    return tokens


def _token_bytes(shape: ModelShape, max_length: int) -> int:
    """Memory that one token takes until its backward, in float32.

    Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", count
    ``s b h (34 + 5 a s / h)`` bytes a layer at two bytes a number; here a number has four.
    """
    return shape.layers * (68 * shape.width + 10 * shape.heads * max_length)
