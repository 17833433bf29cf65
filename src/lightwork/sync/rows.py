"""Of the gradient of an embedding table, only the rows that the batch touches travel.

A batch uses few of the words that a model knows, and the gradient of every other row is zero on
every rank. Which rows it uses follows from the plan, so every rank finds out by itself, and a few
bytes compare what they found. Sums are those of the whole table: zeros added to zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lightwork.errors import StepError

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.comm.group import Group, Pending, Transfer
    from lightwork.sync.contract import Reduction, Strategy

MOST = 0.5
"""Of a table: with more rows than that, packing them costs what it saves."""


class Touched:
    """Which rows of a table the step at hand gives a gradient, the same on every rank."""

    def __init__(self, name: str, group: Group) -> None:
        self.name = name
        self.rows: Tensor | None = None
        """Their numbers, ``[k]``, each once; None: not known, so that all travel."""
        self.checked = False
        """Whether to look for gradients in other rows, which would be lost."""
        self._group = group
        self._told: Tensor | None = None
        self._under_way: Pending | None = None

    def begin(self, rows: Tensor | None, checked: bool) -> None:
        """A step begins; all ranks tell each other in short which rows they mean."""
        self.rows, self.checked, self._under_way = rows, checked, None
        if self._group.size > 1:
            own = torch.tensor([-1, 0, 0] if rows is None else _short(rows))
            self._told = own.new_empty(self._group.size, len(own))
            self._under_way = self._group.all_gather(self._told, own)

    def check(self) -> None:
        """StepError where ranks do not mean the same, before a message is sent that cannot fit."""
        if self._under_way is None or self._told is None:
            return
        self._under_way.wait()
        self._under_way = None
        if bool((self._told != self._told[0]).any()):
            raise StepError(
                "the ranks do not read the same batch: their plans or their data differ. Has every "
                "machine the same data and the same version of the tokenizers library?"
            )


def _short(rows: Tensor) -> list[int]:
    return [len(rows), int(rows.sum()), int((rows * rows).sum())]


class TableSums:
    """A Reduction of a bucket that is one table: its touched rows, packed, are what is summed."""

    def __init__(self, strategy: Strategy, flat: Tensor, width: int, touched: Touched) -> None:
        self._strategy = strategy
        self._table = flat.view(-1, width)
        self._touched = touched
        self._whole = strategy.open(flat)
        self._sums: Reduction = self._whole
        self._rows: Tensor | None = None
        self._packed = flat[:0]
        self._share = -1

    def begin(self) -> None:
        """A new step, with a table of zeros."""
        rows, self._rows, self._sums = self._touched.rows, None, self._whole
        if rows is not None and len(rows) <= MOST * len(self._table):
            self._rows = rows.to(self._table.device, non_blocking=True)
            self._packed = self._table.new_zeros(len(rows), self._table.shape[1])
            self._sums = self._strategy.open(self._packed.view(-1))
        self._share = -1
        self._sums.begin()

    def reach(self, share: int) -> None:
        """What was added up so far belongs to the shares before ``share``."""
        if share != self._share:
            self._pack()
            self._share = share
        self._sums.reach(share)

    def own(self) -> Tensor:
        """This rank's gradient, without the rows that are zero."""
        self._pack()
        return self._sums.own()

    def start(self) -> Pending:
        """Begin to replace the table by its sum over all ranks."""
        self._touched.check()
        self._pack()
        if self._rows is None:
            return self._sums.start()
        lost = self._touched.checked and bool(self._table.any())
        return _Unpacking(self._sums.start(), self._table, self._rows, self._packed, lost)

    def _pack(self) -> None:
        """Move what backward has added to the touched rows to where it is summed."""
        if self._rows is not None:
            self._packed.add_(self._table.index_select(0, self._rows))
            self._table.index_fill_(0, self._rows, 0.0)


class _Unpacking:
    """The message of the packed rows; when it is there they go back to their places."""

    def __init__(
        self, pending: Pending, table: Tensor, rows: Tensor, packed: Tensor, lost: bool
    ) -> None:
        self._pending = pending
        self._table = table
        self._rows = rows
        self._packed = packed
        self._lost = lost

    def wait(self) -> Transfer:
        transfer = self._pending.wait()
        if self._lost:
            error = StepError(
                "the table of word embeddings got a gradient in rows of words that are not in the "
                "batch, so not all of it was sent; set sync.rows=off for this model"
            )
            error.joint = False  # as far as this rank knows
            raise error
        self._table.index_copy_(0, self._rows, self._packed)
        return transfer

    def done(self) -> bool:
        return self._pending.done()
