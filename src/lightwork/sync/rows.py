"""Of the gradient of an embedding table, only the rows that the batch touches travel.

A batch uses few of the words that a model knows, and the gradient of every other row is zero on
every rank. Which rows it uses follows from the plan, so every rank finds out by itself, and a few
bytes compare what they found (``Touched``); where there is no plan, the ranks tell each other what
they looked up (``lookups.LookedUp``). Sums are those of the whole table: zeros added to zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from lightwork.errors import StepError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightwork.comm.group import Group, Pending, Transfer
    from lightwork.sync.contract import Reduction, Strategy

MOST = 0.5
"""Of a table: with more rows than that, packing them costs what it saves. Between two processes of
one machine over gloo, where sending costs least, it does from 0.37 of 46 MB on, and there half of
the rows take 1.3 times as long as all. On a slower line bytes count for more, packing does not."""
LEAST_BYTES = 1 << 20
"""Of a table: one of 0.25 MiB loses by it whatever the rows, one of 1 MiB wins a fifth at most."""


def pays(rows: int, table: Tensor) -> bool:
    """Whether sending so many rows of ``table`` is faster than sending all; alike on all ranks."""
    return table.nbytes >= LEAST_BYTES and rows <= MOST * len(table)


class Table(Protocol):
    """A table of which only some rows are given a gradient in a step."""

    name: str
    """Of the parameter, in the model."""
    always: bool
    """Whether its rows are packed also where that does not pay."""
    rows: Tensor | None
    """Their numbers, ``[k]``, each once; the same on all ranks. None: not known, so all travel."""
    checked: bool
    """Whether to look for gradients in other rows, which would be lost."""

    def begin(self, rows: Tensor | None, checked: bool) -> None:
        """A step begins, and its batch is known to touch ``rows``, if it is known."""
        ...

    def check(self) -> None:
        """Before the table is sent: make sure that ``rows`` is the same on all ranks."""
        ...

    def lost(self) -> None:
        """There were gradients in other rows on this rank, which were not sent."""
        ...


class Touched:
    """A Table whose rows follow from the plan, so that every rank knows them by itself."""

    def __init__(self, name: str, group: Group, always: bool = False) -> None:
        self.name = name
        self.always = always
        self.rows: Tensor | None = None
        self.checked = False
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

    def lost(self) -> None:
        """StepError, as far as this rank knows."""
        error = StepError(
            "the table of word embeddings got a gradient in rows of words that are not in the "
            "batch, so not all of it was sent; set sync.rows=off for this model"
        )
        error.joint = False
        raise error


def _short(rows: Tensor) -> list[int]:
    return [len(rows), int(rows.sum()), int((rows * rows).sum())]


class TableSums:
    """A Reduction of a bucket that is one table: its touched rows, packed, are what is summed.

    Rows that are known when a step begins are packed share by share. Where they are known only when
    the table is sent, the strategy must be one that does not tell shares apart.
    """

    def __init__(self, strategy: Strategy, flat: Tensor, width: int, touched: Table) -> None:
        self._strategy = strategy
        self._table = flat.view(-1, width)
        self._touched = touched
        self._whole = strategy.open(flat)
        self._sums: Reduction = self._whole
        self._rows: Tensor | None = None
        self._packed = flat[:0]
        self._bounds: Tensor | None = None
        self._share = -1

    def begin(self) -> None:
        """A new step, with a table of zeros."""
        self._rows, self._sums = None, self._whole
        self._choose()
        self._share = -1
        self._sums.begin()

    def _choose(self) -> None:
        """Pack the touched rows, if they are known and it pays."""
        rows = self._touched.rows
        if rows is None or self._rows is not None:
            return
        if self._touched.always or pays(len(rows), self._table):
            self._rows = rows.to(self._table.device, non_blocking=True)
            self._packed = self._table.new_zeros(len(rows), self._table.shape[1])
            self._sums = self._strategy.open(self._packed.view(-1))

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
        self._choose()
        self._pack()
        if self._rows is None:
            return self._sums.start()
        # Its least and its greatest value: a sixth of the time of ``any``, and NaN is both.
        self._bounds = torch.stack(self._table.aminmax()) if self._touched.checked else None
        return _Unpacking(self._sums.start(), self._unpack)

    def _unpack(self) -> None:
        """The sums are there: put them back in their places."""
        assert self._rows is not None
        if self._bounds is not None and bool(self._bounds.any()):
            self._touched.lost()
        self._table.index_copy_(0, self._rows, self._packed)

    def catch_up(self) -> None:
        """After the packed rows have come back: sum the others too. To be called on all ranks."""
        if self._rows is not None:
            self._whole.start().wait()  # adds up sums of the packed rows as well, which are lost
            self._table.index_copy_(0, self._rows, self._packed)

    def _pack(self) -> None:
        """Move what backward has added to the touched rows to where it is summed."""
        if self._rows is not None:
            self._packed.add_(self._table.index_select(0, self._rows))
            self._table.index_fill_(0, self._rows, 0.0)


class _Unpacking:
    """The message of the packed rows, after which ``unpack()`` is called once."""

    def __init__(self, pending: Pending, unpack: Callable[[], None]) -> None:
        self._pending = pending
        self._unpack: Callable[[], None] | None = unpack

    def wait(self) -> Transfer:
        transfer = self._pending.wait()
        if self._unpack is not None:
            self._unpack()
            self._unpack = None
        return transfer

    def done(self) -> bool:
        return self._pending.done()
