"""Before ranks meet, each says what it is about to do: one that went another way is named.

A rank that skips a batch, or saves while the others train, would otherwise add its gradients to
those of another batch, or leave the others waiting for a message of another kind.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightwork.comm.group import Group, Pending
from lightwork.errors import StepError

BACKWARD, EPOCH, GATHER, SAVE = range(4)
NAMES = ("run.backward", "the beginning of an epoch", "run.gather", "run.save")


class Meeting:
    """Compares what all ranks do, and how many shared batches each has been handed."""

    def __init__(self, group: Group, handed: Callable[[], int]) -> None:
        """``handed()``: batches that this rank got so far from loaders shared for training."""
        self._group = group
        self._handed = handed
        self._rows: Tensor | None = None
        self._pending: Pending | None = None

    def announce(self, doing: int) -> None:
        """Begin to tell the others; :meth:`check` hears what they told."""
        if self._group.size == 1:
            return
        own = torch.tensor([doing, self._handed()])
        self._rows = torch.empty(self._group.size, len(own), dtype=own.dtype)
        self._pending = self._group.all_gather(self._rows, own)

    def check(self) -> None:
        """Raise StepError, on all ranks, when they have gone different ways.

        The connection is then broken: what travels already belongs to different batches.
        """
        if self._pending is None or self._rows is None:
            return
        self._pending.wait()
        self._pending = None
        told = [tuple(row) for row in self._rows.tolist()]
        if len(set(told)) == 1:
            return
        self._group.abort()
        places = "; ".join(
            f"rank {rank} is at {NAMES[doing]}, batch {handed}"
            for rank, (doing, handed) in enumerate(told)
        )
        raise StepError(
            f"the ranks have gone different ways: {places}. Every rank has to do the same with "
            "every batch: one that has nothing to learn from takes part with a count of 0, and "
            "what ends or skips a batch must be decided by all alike"
        )

    def meet(self, doing: int) -> None:
        """Announce and check."""
        self.announce(doing)
        self.check()
