"""Sums in one fixed order, whatever the number of ranks: the same bits on 1, 2, 3 … ranks.

Rounding makes a sum depend on its order. Here the order is a binary tree over the *shares* of a
batch, which no number of ranks changes. Level j of the tree has 2**j places, and place i holds the
shares that rank i of 2**j would host (``data.plan.assign``), so with V shares it is those from
V * i // 2**j up to V * (i + 1) // 2**j. A place of one share is a leaf; the sum of any other is the
sum of its left half plus the sum of its right half. Where V is a power of two, this is the complete
binary tree over 0 … V - 1.

A rank accumulates each of its shares from zero and adds up the largest subtrees inside its run of
shares, so that it holds one where the ranks are a power of two or as many as the shares, and few
otherwise. Then each rank owns a slice of the bucket, is sent that slice of every subtree, finishes
the tree, and sends the result to all: a reduce-scatter and an all-gather, as in the ring of
Patarasuk and Yuan ("Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
A rank with k subtrees sends (k + 1) * (n - 1) / n times the bucket, in the ring 2 * (n - 1) / n.

Why slices and buckets do not matter: the tree is followed for every element by itself.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lightwork.comm.message import Finished, Transfer

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.comm.group import Group, Pending


AHEAD = 3
"""Buckets that may set out before one has to be where its sum is finished: ranks are never quite
at the same place, and each costs room for what it receives."""


@dataclass(frozen=True)
class Node:
    """The sum of some consecutive shares: one of them, or the sum of two halves."""

    shares: range
    halves: tuple[Node, Node] | None


def tree(shares: int, level: int = 0, place: int = 0) -> Node:
    """The tree over shares 0 … ``shares`` - 1, or what lies under a place of a level of it."""
    own = range(shares * place >> level, shares * (place + 1) >> level)
    if len(own) == 1:
        return Node(own, None)
    left, right = (tree(shares, level + 1, 2 * place + half) for half in (0, 1))
    return Node(own, (left, right))


def subtrees(node: Node, run: range) -> list[Node]:
    """The largest nodes whose shares all lie in ``run``, in order."""
    shares = node.shares
    if run.start <= shares.start and shares.stop <= run.stop:
        return [node]
    if shares.stop <= run.start or run.stop <= shares.start or node.halves is None:
        return []
    return [found for half in node.halves for found in subtrees(half, run)]


def _inner(node: Node) -> Iterator[Node]:
    if node.halves is not None:
        yield node
        for half in node.halves:
            yield from _inner(half)


class Tree:
    """A Strategy that sums shares, not ranks, each bucket along the same tree."""

    name = "tree"

    def __init__(self, group: Group, runs: Sequence[range]) -> None:
        """``runs``: the shares that each rank of ``group`` hosts, some perhaps none."""
        self.group = group
        self.root = tree(runs[-1].stop)
        self.held = [subtrees(self.root, run) for run in runs]
        """Of every rank, the subtrees whose sums it makes."""
        self.run = runs[group.rank]
        whole = [node for held in self.held[group.rank] for node in _inner(held)]
        self.sums_after = {
            share: sum(node.shares.stop == share + 1 for node in whole) for share in self.run
        }
        """How many nodes become complete with a share."""
        self._journeys = 0
        self._under_way: deque[_Journey] = deque()  # on their first half
        self._rooms: dict[tuple[object, ...], Tensor] = {}

    def open(self, flat: Tensor) -> ShareSums:
        """The sums of the bucket ``flat``."""
        return ShareSums(self, flat)

    def send(self, flat: Tensor, sums: list[Tensor]) -> Pending:
        """Begin to replace ``flat`` by the whole sum, of which this rank's subtrees are ``sums``.

        Buckets set out in the order of these calls, and a bucket turns from the first half of its
        journey to the second once ``AHEAD`` more have set out. So the messages of all ranks are in
        one order, without a thread.
        """
        if self.group.size == 1:
            return Finished()
        journey = _Journey(self, flat, sums)
        self._under_way.append(journey)
        if len(self._under_way) > AHEAD:
            self._under_way.popleft().turn()
        return journey

    def turn_all(self) -> None:
        """No more buckets set out in this step."""
        while self._under_way:
            self._under_way.popleft().turn()

    def room(self, count: int, like: Tensor) -> Tensor:
        """``count`` elements to receive in, until the journey that asks turns."""
        self._journeys += 1
        kind = (self._journeys % (AHEAD + 1), like.dtype, like.device)
        room = self._rooms.get(kind)
        if room is None or room.numel() < count:
            room = self._rooms[kind] = torch.empty(count, dtype=like.dtype, device=like.device)
        return room[:count]


class ShareSums:
    """A Reduction of one bucket: its gradient of one share after the other becomes subtree sums.

    ``flat`` holds the gradient of the share that is being computed. Beside it are as many more of
    its size as subtrees are open at once, at most about twice log2 of the hosted shares.
    """

    def __init__(self, strategy: Tree, flat: Tensor) -> None:
        self._tree = strategy
        self._flat = flat
        self._places: list[Tensor] = []
        self._open = 0  # of the places, those that hold a sum
        self._share = strategy.run.start

    def begin(self) -> None:
        """A new step: no share has been computed."""
        self._open, self._share = 0, self._tree.run.start

    def reach(self, share: int) -> None:
        """The shares before ``share`` are complete; those without windows count as zeros."""
        while self._share < share:
            self._complete()

    def own(self) -> Tensor:
        """This rank's whole gradient, in a tensor that is not ``flat`` if there were subtrees."""
        self._complete_all()
        whole = self._flat
        for sums in self._places[: self._open]:
            whole = whole + sums
        return whole

    def start(self) -> Pending:
        """Begin to replace ``flat`` by the sum over all shares of all ranks."""
        self._complete_all()
        sums = [*self._places[: self._open], self._flat] if self._tree.run else []
        return self._tree.send(self._flat, sums)

    def _complete_all(self) -> None:
        self.reach(self._tree.run.stop)

    def _complete(self) -> None:
        """Share ``self._share`` is done: add up every node that ends with it."""
        for _ in range(self._tree.sums_after[self._share]):
            self._open -= 1
            self._flat.add_(self._places[self._open])  # a + b and b + a have the same bits
        self._share += 1
        if self._share == self._tree.run.stop:
            return  # the last sum stays where the result will be
        if self._open == len(self._places):
            self._places.append(torch.empty_like(self._flat))
        self._places[self._open].copy_(self._flat)
        self._open += 1
        self._flat.zero_()


class _Journey:
    """One bucket under way: to the owners of its slices, and from them to all."""

    def __init__(self, strategy: Tree, flat: Tensor, sums: list[Tensor]) -> None:
        group, count = strategy.group, flat.numel()
        edges = [count * rank // group.size for rank in range(group.size + 1)]
        self._slices = [flat[a:b] for a, b in itertools.pairwise(edges)]
        self._own = self._slices[group.rank]
        self._others = [rank for rank in range(group.size) if rank != group.rank]
        self._owners = [rank for rank in self._others if self._slices[rank].numel()]
        self._tree = strategy
        pieces = [whole.tensor_split(edges[1:-1]) for whole in sums]
        held = [node.shares for node in strategy.held[group.rank]]
        self._pieces = {
            shares: piece[group.rank] for shares, piece in zip(held, pieces, strict=True)
        }
        sends = [(rank, piece[rank]) for rank in self._owners for piece in pieces]
        self._there = group.exchange(sends, self._receives() if self._own.numel() else [])
        self._back: Pending | None = None
        self._transfer: Transfer | None = None

    def _receives(self) -> list[tuple[int, Tensor]]:
        """Room for this rank's slice of the subtrees of all others."""
        held = self._tree.held
        coming = [(rank, node.shares) for rank in self._others for node in held[rank]]
        count = self._own.numel()
        rows = self._tree.room(len(coming) * count, self._own).view(len(coming), count).unbind()
        self._pieces |= {shares: row for (_, shares), row in zip(coming, rows, strict=True)}
        return [(rank, row) for (rank, _), row in zip(coming, rows, strict=True)]

    def turn(self) -> None:
        """Wait for the first half, finish the tree in the own slice and send it to all."""
        self._there.wait()
        sends = []
        if self._own.numel():
            self._own.copy_(self._sum(self._tree.root))
            sends = [(rank, self._own) for rank in self._others]
        receives = [(rank, self._slices[rank]) for rank in self._owners]
        self._pieces = {}
        self._back = self._tree.group.exchange(sends, receives)

    def _sum(self, node: Node) -> Tensor:
        if (piece := self._pieces.get(node.shares)) is not None:
            return piece
        assert node.halves is not None, "every share is hosted by some rank"
        left, right = (self._sum(half) for half in node.halves)
        return left.add_(right)

    def wait(self) -> Transfer:
        if self._transfer is None:
            self._tree.turn_all()
            assert self._back is not None
            there, back = self._there.wait(), self._back.wait()
            self._transfer = Transfer(
                there.started_s, back.finished_s, there.sent_bytes + back.sent_bytes
            )
        return self._transfer

    def done(self) -> bool:
        return self._back is not None and self._back.done()
