"""All ranks begin with the same model, and are found out when they no longer hold the same.

A question-answering head starts at random. Without rank 0's weights every rank would train its
own, the gradients would still be summed, and nothing would fail. Nor does anything fail when a
rank's memory flips a bit, or code changes weights on one rank only: its gradients are then those of
another model, and the checkpoint is that of rank 0.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.errors import LaunchError, StepError

_BASE = 6364136223846793005
"""The multiplier of Knuth's MMIX generator (The Art of Computer Programming 2, 3.3.4): it passes
the spectral test, so no short sum of its neighbouring powers is zero, and it is 5 modulo 8."""
_PIECE_WORDS = 1 << 15
"""What is multiplied at once: within a CPU's cache, and so little that PyTorch does it in one
thread, so that it can be done beside training."""
_GPU_PIECES = 4
"""So many of them on a GPU, where every one has its price."""
_WORDS = {1: torch.uint8, 2: torch.int16}
"""Whole numbers with the bits of an element, by its bytes; larger ones are several of four."""


def start_alike(group: Group, model: nn.Module) -> None:
    """Give every rank the weights and buffers of rank 0.

    Raises LaunchError, on all ranks together, when the models differ in a name, a shape or a
    dtype, or when the weights differ after they have travelled.
    """
    state = dict(model.state_dict(keep_vars=True))
    structure = {name: [list(t.shape), str(t.dtype)] for name, t in state.items()}
    shapes = group.gather_json(structure)
    for rank, other in enumerate(shapes):
        differing = sorted(
            name for name in {*shapes[0], *other} if shapes[0].get(name) != other.get(name)
        )
        if differing:
            raise LaunchError(
                f"rank {rank} has built another model than rank 0: {differing[0]} is "
                f"{other.get(differing[0], 'missing')} there and "
                f"{shapes[0].get(differing[0], 'missing')} on rank 0. All ranks need the same "
                "version of the software and of the model."
            )
    receive_tensors(group, state.values())
    found = difference(group, state)
    if found:
        raise LaunchError(
            f"after the weights of rank 0 were sent to all, {found}: the connection or the memory "
            "is faulty."
        )


def check_alike(
    group: Group, held: Callable[[], Mapping[str, Tensor]], step: int
) -> dict[str, int]:
    """Compare what the ranks hold after ``step``; alone there is nothing to do.

    Returns the sums of all that was compared, see :func:`sums_of`.

    Raises StepError, on all ranks together, which says what differs and where.
    """
    if group.size == 1:
        return {}
    sums = sums_of(held())
    found = _compare(group, sums)
    if found:
        raise StepError(
            f"after step {step} the ranks no longer hold the same: {found}. No checkpoint of it "
            "was written. Start the same command again: it goes on from the newest checkpoint, "
            "for which all ranks held the same. Where this happens twice: unlike processors, GPUs "
            "or versions of PyTorch round differently; if all ranks have the same, suspect the "
            "memory or the device of that rank, or code that changes the model on some ranks only."
        )
    return sums


def difference(group: Group, tensors: Mapping[str, Tensor]) -> str | None:
    """Where the ranks do not hold the same bits under the same names, in words; None where they do.

    A message of eight bytes, on the CPU, as long as they do. Every rank gets the same answer.
    """
    return None if group.size == 1 else _compare(group, sums_of(tensors))


def _compare(group: Group, sums: dict[str, int]) -> str | None:
    own = torch.tensor([int.from_bytes(_digest([*sums.items()]), "little", signed=True)])
    rows = torch.empty(group.size, 1, dtype=torch.int64)
    group.all_gather(rows, own).wait()
    if bool((rows == own).all()):
        return None
    return _told(group.gather_json(sums))


def _told(sums: Sequence[Mapping[str, int]]) -> str:
    """Which of the ranks that hold ``sums`` differ from the majority, and in which tensors."""
    names = list(dict.fromkeys(name for held in sums for name in held))
    wrong = [name for name in names if len({held.get(name) for held in sums}) > 1]
    held = [tuple(sums_of_rank.get(name) for name in wrong) for sums_of_rank in sums]
    (usual, count), *others = Counter(held).most_common()
    odd = [str(rank) for rank, values in enumerate(held) if values != usual]
    if others and others[0][1] == count:
        who = "as many ranks hold one thing as another; they differ"
    elif len(odd) == 1:
        who = f"rank {odd[0]} differs from the {count} others"
    else:
        who = f"ranks {', '.join(odd)} differ from the {count} others"
    first = f"{wrong[0]}" if len(wrong) == 1 else f"the first of them {wrong[0]}"
    return f"{who} in {len(wrong)} of {len(names)} tensors, {first}"


@torch.no_grad()
def receive_tensors(group: Group, tensors: Iterable[Tensor]) -> None:
    """Replace ``tensors``, of equal shapes on all ranks, by those of rank 0."""
    for tensor in tensors:
        whole = tensor.detach().contiguous()
        group.broadcast(whole).wait()
        if whole.data_ptr() != tensor.data_ptr():
            tensor.copy_(whole)


def sums_of(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """A whole number of 64 bits for each tensor, over all its bits: the same on every device."""
    return dict(zip(tensors, _sums(list(tensors.values())), strict=True))


def checksum_of(sums: Mapping[str, int]) -> str:
    """16 hex digits over names and their :func:`sums_of`, in whatever order they come."""
    return _digest(sorted(sums.items())).hex()


def checksum(tensors: Iterable[Tensor]) -> str:
    """16 hex digits over all bits of ``tensors``, in their order: the same on every device."""
    return _digest(_sums(list(tensors))).hex()


def _digest(value: object) -> bytes:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).digest()


def _sums(tensors: Sequence[Tensor]) -> list[int]:
    """:func:`_sum` of each, with one wait for every device that holds some."""
    sums = [_sum(tensor.detach()) for tensor in tensors]
    found = [0] * len(sums)
    for device in {value.device for value in sums}:
        places = [place for place, value in enumerate(sums) if value.device == device]
        values = torch.stack([sums[place] for place in places]).tolist()
        for place, value in zip(places, values, strict=True):
            found[place] = value
    return found


def _sum(tensor: Tensor) -> Tensor:
    """The polynomial whose coefficients are the words of ``tensor``, at ``_BASE``, modulo 2^64.

    Computed where the tensor lies, in whole numbers that wrap, so no order of adding shows. A word
    has at most 32 bits and the base is odd: one changed word always shows. The base is 5 modulo 8,
    so powers i and j differ in at most the factor 4 (i - j): two different words that changed
    places always show, too, in any tensor below 2^31 words.
    """
    words = tensor.reshape(-1).view(_WORDS.get(tensor.itemsize, torch.int32))
    powers = _powers(tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for piece in reversed(words.split(len(powers))):
        total = total * _whole_piece(len(powers)) + (piece * powers[: len(piece)]).sum()
    return total


@cache
def _powers(device: torch.device) -> Tensor:
    """``_BASE`` to the powers 0, 1, … of a piece, modulo 2^64."""
    words = _PIECE_WORDS if device.type == "cpu" else _PIECE_WORDS * _GPU_PIECES
    factors = torch.full((words,), _BASE, dtype=torch.int64)
    factors[0] = 1
    return factors.cumprod(0).to(device)


@cache
def _whole_piece(words: int) -> int:
    """``_BASE`` to the power of a piece's length, modulo 2^64, as a signed number."""
    power = pow(_BASE, words, 1 << 64)
    return power - (1 << 64) if power >= 1 << 63 else power


def send_tensors(group: Group, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The named tensors that rank 0 gives, on the CPU of every rank; others give none."""
    if group.size == 1:
        return tensors
    specs = {
        name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in tensors.items()
    }
    for name, (shape, dtype) in group.gather_json(specs)[0].items():
        if group.rank != 0:
            tensors[name] = torch.empty(shape, dtype=getattr(torch, dtype))
    receive_tensors(group, tensors.values())
    return tensors
