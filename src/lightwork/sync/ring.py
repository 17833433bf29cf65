"""The ring: every rank sends to the next one only, and all links are busy all the time.

Patarasuk and Yuan: "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
A bucket is cut in as many slices as there are n ranks. In n - 1 hops each rank passes a slice on,
adding its own, until every rank holds the sum of one; in n - 1 more the sums go round. So all
ranks together send exactly 2 * (n - 1) times the bucket, the least that is possible, and each
the same. The sum of a slice is added up in the order of the ring from its place on: equal on all
ranks, and to rounding equal to any other.

A bucket goes round in several chunks, so that while one is added up others are under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightwork.comm.lane import add, chunks
from lightwork.sync.all_reduce import RankSums

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.comm.group import Group, Pending
    from lightwork.comm.lane import Journey


class Ring:
    """A Strategy that sends each bucket round, from rank to rank."""

    name = "ring"

    def __init__(self, group: Group) -> None:
        self._lane = group.lane()

    def open(self, flat: Tensor) -> RankSums:
        """The sums of the bucket ``flat``."""
        return RankSums(flat, self._send)

    def _send(self, flat: Tensor) -> Pending:
        group = self._lane.group
        rounds = (_round(group, chunk) for chunk in chunks(flat, group.size))
        return self._lane.go(rounds, flat.device)


def _round(group: Group, chunk: Tensor) -> Journey:
    """One chunk's way round the ring: after it ``chunk`` is the sum over all ranks."""
    n, rank = group.size, group.rank
    ahead, behind = (rank + 1) % n, (rank - 1) % n
    slices = chunk.tensor_split(n)
    for hop in range(n - 1):
        own, coming = slices[(rank - hop) % n], slices[(rank - hop - 1) % n]
        partial_sum = coming.new_empty(coming.shape)
        yield group.exchange(_pair(ahead, own), _pair(behind, partial_sum))
        add(coming, partial_sum)
    for hop in range(n - 1):
        own, coming = slices[(rank + 1 - hop) % n], slices[(rank - hop) % n]
        yield group.exchange(_pair(ahead, own), _pair(behind, coming))


def _pair(peer: int, tensor: Tensor) -> list[tuple[int, Tensor]]:
    """What is sent to or comes from ``peer``; a slice of nothing does not travel."""
    return [(peer, tensor)] if tensor.numel() else []
