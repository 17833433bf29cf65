"""All ranks begin with the same model: the same structure is checked, rank 0's weights travel.

A question-answering head starts at random. Without this every rank would train its own, the
gradients would still be summed, and nothing would fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.errors import LaunchError


def start_alike(group: Group, model: nn.Module) -> str:
    """Give every rank the weights of rank 0; returns their checksum, the same on all ranks.

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
    sums = group.gather_json(checksum(state.values()))
    if len(set(sums)) > 1:
        wrong = next(rank for rank, value in enumerate(sums) if value != sums[0])
        raise LaunchError(
            f"rank {wrong} does not have the weights of rank 0 after they were sent "
            f"({sums[wrong]} instead of {sums[0]}): the connection or the memory is faulty."
        )
    return str(sums[0])


@torch.no_grad()
def receive_tensors(group: Group, tensors: Iterable[Tensor]) -> None:
    """Replace ``tensors``, of equal shapes on all ranks, by those of rank 0."""
    for tensor in tensors:
        whole = tensor.detach().contiguous()
        group.broadcast(whole).wait()
        if whole.data_ptr() != tensor.data_ptr():
            tensor.copy_(whole)


def checksum(tensors: Iterable[Tensor]) -> str:
    """16 hex digits over the bytes of ``tensors``, in their order."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


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
