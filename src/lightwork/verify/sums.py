"""Tensors told apart by a checksum each, so that the one that differs can be named.

Not by that of ``train.replicas``: what verifies does not rely on what is verified, and this one
sees shapes and dtypes as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lightwork.verify.verdict import counted, listed

Sums = Mapping[str, str]
"""Name of a tensor -> 16 hex digits over its bytes."""


def tensor_sums(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The checksum of every tensor, which also covers its dtype and shape."""
    return {name: _sum(tensor) for name, tensor in tensors.items()}


def _sum(tensor: Tensor) -> str:
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    digest = hashlib.blake2b(f"{tensor.dtype} {list(tensor.shape)}".encode(), digest_size=8)
    digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def whole_sum(sums: Sums) -> str:
    """One checksum over all."""
    text = "".join(f"{name} {value}\n" for name, value in sums.items())
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def difference(told: Sequence[Sums]) -> str:
    """The first tensor that is not the same on all ranks, and on which; nothing where all are.

    ``told``: the checksums of every rank.
    """
    names = list(dict.fromkeys(name for sums in told for name in sums))
    differing = [name for name in names if len({sums.get(name) for sums in told}) > 1]
    if not differing:
        return ""
    first = differing[0]
    others = [rank for rank, sums in enumerate(told) if sums.get(first) != told[0].get(first)]
    more = f", the first of {len(differing)} of {counted(len(names), 'tensor')}"
    ranks = f"rank{'' if len(others) == 1 else 's'} {listed(others)}"
    return f"{first} differs between rank 0 and {ranks}{more}"
