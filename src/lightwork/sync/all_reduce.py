"""The plain strategy: one all-reduce per bucket, by whatever algorithm the backend chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.comm.group import Group, Pending


class AllReduce:
    """Sum each bucket with the group's own all-reduce (ring or halving-doubling in gloo, NCCL)."""

    name = "all_reduce"

    def __init__(self, group: Group) -> None:
        self._group = group

    def start(self, flat: Tensor) -> Pending:
        """Begin to replace ``flat`` by its sum over all ranks."""
        return self._group.all_reduce(flat)
