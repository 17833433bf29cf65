"""The plain strategy: one all-reduce per bucket, by whatever algorithm the backend chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightwork.comm.group import Group, Pending


class AllReduce:
    """Sum each bucket with the group's own all-reduce (ring or halving-doubling in gloo, NCCL)."""

    name = "all_reduce"

    def __init__(self, group: Group) -> None:
        self._group = group

    def open(self, flat: Tensor) -> RankSums:
        """The sums of the bucket ``flat``."""
        return RankSums(flat, self._group.all_reduce)


class RankSums:
    """A Reduction of one bucket: all shares of this rank add up in it, then all ranks."""

    def __init__(self, flat: Tensor, send: Callable[[Tensor], Pending]) -> None:
        """``send`` begins to replace a tensor by its sum over all ranks."""
        self._flat = flat
        self._send = send

    def begin(self) -> None:
        """Nothing is kept from step to step."""

    def reach(self, share: int) -> None:
        """Shares are not told apart."""

    def own(self) -> Tensor:
        """This rank's gradient."""
        return self._flat

    def start(self) -> Pending:
        """Begin to replace the bucket by its sum over all ranks."""
        return self._send(self._flat)
