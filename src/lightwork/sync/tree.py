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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lightwork.comm.lane import add, chunks

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.comm.group import Group, Pending
    from lightwork.comm.lane import Journey


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
        self._lane = group.lane()
        self.root = tree(runs[-1].stop)
        self.held = [subtrees(self.root, run) for run in runs]
        """Of every rank, the subtrees whose sums it makes."""
        self.run = runs[group.rank]
        whole = [node for held in self.held[group.rank] for node in _inner(held)]
        self.sums_after = {
            share: sum(node.shares.stop == share + 1 for node in whole) for share in self.run
        }
        """How many nodes become complete with a share."""

    def open(self, flat: Tensor) -> ShareSums:
        """The sums of the bucket ``flat``."""
        return ShareSums(self, flat)

    def send(self, flat: Tensor, sums: list[Tensor]) -> Pending:
        """Begin to replace ``flat`` by the whole sum; this rank's subtrees are ``sums``."""
        ranks = self._lane.group.size
        pieces = zip(chunks(flat, ranks), *(chunks(whole, ranks) for whole in sums), strict=True)
        return self._lane.go((self._there_and_back(*piece) for piece in pieces), flat.device)

    def _there_and_back(self, chunk: Tensor, *sums: Tensor) -> Journey:
        """One chunk under way: to the owners of its slices, and from them to all."""
        group = self._lane.group
        slices = chunk.tensor_split(group.size)
        own = slices[group.rank]
        others = [rank for rank in range(group.size) if rank != group.rank]
        owners = [rank for rank in others if slices[rank].numel()]
        parts = [whole.tensor_split(group.size) for whole in sums]
        coming = [(r, node) for r in others for node in self.held[r]] if own.numel() else []
        rows = own.new_empty(len(coming), own.numel()).unbind()
        yield group.exchange(
            [(rank, part[rank]) for rank in owners for part in parts],
            [(rank, row) for (rank, _), row in zip(coming, rows, strict=True)],
        )
        if own.numel():
            held = zip(self.held[group.rank], parts, strict=True)
            known = {node.shares: part[group.rank] for node, part in held}
            known |= {node.shares: row for (_, node), row in zip(coming, rows, strict=True)}
            own.copy_(_sum(self.root, known))
        yield group.exchange(
            [(rank, own) for rank in others if own.numel()],
            [(rank, slices[rank]) for rank in owners],
        )


def _sum(node: Node, known: dict[range, Tensor]) -> Tensor:
    """Of the slice whose subtree sums are ``known``; they are used up."""
    if (piece := known.get(node.shares)) is not None:
        return piece
    assert node.halves is not None, "every share is hosted by some rank"
    left, right = (_sum(half, known) for half in node.halves)
    return add(left, right)


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
