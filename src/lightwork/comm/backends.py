"""Connections among ranks as PyTorch makes them, and what has to be known about them."""

from __future__ import annotations

import ctypes
from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from lightwork.errors import PeerLostError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Work
    from torch.distributed.distributed_c10d import Store

_KEPT: deque[Work] = deque(maxlen=64)
"""The last messages, more than gloo has threads. One of them lets go of a message a moment after
``wait`` returns. Did it hold the last reference, it would need Python's lock to free the tensors in
it, and where Python is ending by then, taking that lock aborts the process.
"""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_KEPT))  # outlives even the end of this module

_NEVER_SENT = 2**20
"""A tag beside the 0 of every exchange."""


def connected(store: Store, rank: int, size: int, timeout_s: float, device: str) -> ProcessGroup:
    """``size`` ranks that meet at ``store``: by gloo for CPU tensors, by NCCL for those of CUDA.

    Raises PeerLostError when not all of them come in time.
    """
    try:
        return _connected(store, rank, size, timeout_s, device)
    except RuntimeError as error:
        raise PeerLostError(
            f"rank {rank} did not reach all {size} ranks within {timeout_s:g} s "
            f"({str(error).splitlines()[0]}). The first rank that failed has the reason."
        ) from error


def _connected(store: Store, rank: int, size: int, timeout_s: float, device: str) -> ProcessGroup:
    process_group = dist.ProcessGroup(store, rank, size)
    timeout = timedelta(seconds=timeout_s)
    kinds = dist.ProcessGroup.BackendType
    gloo = dist.ProcessGroupGloo(PrefixStore("cpu", store), rank, size, timeout)
    process_group._register_backend(torch.device("cpu"), kinds.GLOO, gloo)
    if device == "cuda":
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        nccl_store = PrefixStore("cuda", store)
        nccl = dist.ProcessGroupNCCL(nccl_store, rank, size, options)
        process_group._register_backend(torch.device("cuda"), kinds.NCCL, nccl)
    process_group._set_default_backend(kinds.GLOO)
    return process_group


def kept(works: list[Work]) -> list[Work]:
    """``works``, some of which are also kept here; see ``_KEPT``."""
    _KEPT.extend(works)
    return works


def break_gloo(group: ProcessGroup) -> None:
    """Close gloo's connections. Its own ``abort`` does not, and its end waits for every message.

    A receive that times out closes all connections of its group, so wait briefly for one that no
    peer will ever send.
    """
    peer = (group.rank() + 1) % group.size()
    with suppress(RuntimeError):  # the timeout that is meant, or a connection that broke before
        receive = group.recv([torch.empty(1)], peer, _NEVER_SENT)
        receive.wait(timedelta(milliseconds=1))
