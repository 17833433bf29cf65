"""Which rows of its embedding tables a model reads, where no plan says it beforehand.

Every rank notes what its own forward passes look up. Before the last backward of a step the ranks
tell each other in one message of a size that is known beforehand, a bit for every row, so all know
the same rows when the tables are sent and come to the same decisions. The message travels while
backward runs; a table's gradient is the last to be ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightwork.comm.group import Group, Pending


class Lookups:
    """What all ranks look up in some tables, step after step."""

    def __init__(
        self,
        group: Group,
        tables: Mapping[str, nn.Embedding],
        always: bool,
        before: Callable[[], None],
    ) -> None:
        """``tables`` by the names of their weights, alike on all ranks.

        ``before()`` is called before waiting for what the others have looked up.
        """
        self.tables = [LookedUp(name, self, table, always) for name, table in tables.items()]
        self._group = group
        self._before = before
        self._noting = True
        self._told: Tensor | None = None
        self._under_way: Pending | None = None

    @property
    def noting(self) -> bool:
        """Whether what is looked up belongs to a step that is still to be told."""
        return self._noting

    def tell(self) -> None:
        """Begin to tell the others what this rank has looked up since it did so last.

        What is looked up from here to :meth:`note_again` repeats what was told: forward passes
        that backward does a second time to save memory.
        """
        self._noting = False
        bits = [table.take() for table in self._followed()]
        if bits:
            own = torch.from_numpy(np.concatenate(bits))
            self._told = own.new_empty(self._group.size, len(own))
            self._under_way = self._group.all_gather(self._told, own)

    def hear(self) -> None:
        """Wait for what the others have told, and learn which rows all have looked up."""
        if self._under_way is None or self._told is None:
            return
        self._before()
        self._under_way.wait()
        self._under_way = None
        together = np.bitwise_or.reduce(self._told.numpy(), axis=0)
        for table in self._followed():
            table.learn(together[: table.told_bytes])
            together = together[table.told_bytes :]

    def note_again(self) -> None:
        """Backward is over: what is looked up from here on belongs to the next step."""
        self._noting = True

    def lost(self) -> list[str]:
        """The tables of which this rank had gradients in other rows in this step."""
        return [table.name for table in self.tables if table.was_lost]

    def give_up(self) -> list[str]:
        """From now on send all of the tables that any rank has lost gradients of.

        To be called on all ranks together; returns their names.
        """
        told = [name for names in self._group.gather_json(self.lost()) for name in names]
        for table in self.tables:
            table.followed = table.followed and table.name not in told
        return list(dict.fromkeys(told))

    def _followed(self) -> list[LookedUp]:
        return [table for table in self.tables if table.followed]


class LookedUp:
    """A ``rows.Table`` whose rows are those that any rank has looked up in the step."""

    checked = True
    """In every step: that nothing else uses the weight is not known, only seen."""

    def __init__(self, name: str, lookups: Lookups, table: nn.Embedding, always: bool) -> None:
        self.name = name
        self.always = always
        self.rows: Tensor | None = None
        self.followed = True
        """Whether rows are noted and told."""
        self.was_lost = False
        """Whether this rank had gradients in other rows in this step."""
        self.told_bytes = -(-table.num_embeddings // 8)
        self._lookups = lookups
        self._seen = np.zeros(table.num_embeddings, np.bool_)
        self._coming: list[tuple[Tensor, torch.cuda.Event]] = []
        table.register_forward_hook(_Noting(self), with_kwargs=True)

    def begin(self, rows: Tensor | None, checked: bool) -> None:  # noqa: ARG002 - nothing is known
        """A step begins, whose rows are known only after its last forward pass."""
        self.rows, self.was_lost = None, False

    def check(self) -> None:
        """Make sure that what the others looked up is known."""
        self._lookups.hear()

    def lost(self) -> None:
        """Remember it for the message in which all ranks tell how the step went."""
        self.was_lost = True

    def note(self, ids: Tensor) -> None:
        """``ids``, of any shape, are looked up."""
        if not (self.followed and self._lookups.noting and _has_values(ids)):
            return
        ids = ids.detach().flatten()
        if not ids.is_cuda:
            self._seen[ids.numpy()] = True
            return
        # Into pinned memory behind what the device does now, the beginning of a forward pass; it is
        # there long before it is asked for, and nobody waits for the whole pass.
        copied = ids.to("cpu", non_blocking=True)
        self._coming.append((copied, torch.cuda.current_stream(ids.device).record_event()))
        while self._coming and self._coming[0][1].query():
            self._seen[self._coming.pop(0)[0].numpy()] = True

    def take(self) -> Any:
        """What was noted, ``[told_bytes]`` with a bit for every row; it is then forgotten."""
        for copied, event in self._coming:
            event.synchronize()
            self._seen[copied.numpy()] = True
        self._coming.clear()
        bits = np.packbits(self._seen)
        self._seen[:] = False
        return bits

    def learn(self, bits: Any) -> None:
        """What all ranks together have told, as :meth:`take` gives it."""
        self.rows = torch.from_numpy(np.flatnonzero(np.unpackbits(bits, count=len(self._seen))))


def _has_values(ids: Tensor) -> bool:
    """Whether ``ids`` is no mere stand-in, as inside ``torch.func.vmap``."""
    try:
        ids.data_ptr()
    except RuntimeError:
        return False
    return True


class _Noting:
    """The forward hook of a table. A copy of the model, in memory or a file, has an empty one."""

    def __init__(self, table: LookedUp) -> None:
        self._table = table

    def __call__(
        self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], _: Any
    ) -> None:
        """Note what was looked up, unless it cannot get a gradient.

        Not inside compiled code, where it would split the graph: then the gradient is found in rows
        that were not looked up, and the whole table is sent.
        """
        if torch.compiler.is_compiling():
            return
        if module.training or torch.is_grad_enabled():  # a checkpointed pass has no graph at first
            self._table.note(given[0] if given else named["input"])

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _no_noting, ()


def _no_noting() -> Callable[..., None]:
    return _ignore


def _ignore(*_: Any) -> None:
    """A hook that does nothing."""
