"""How many gradients become one: the seams between a training step and the wire."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightwork.comm.group import Group, Pending


@dataclass(frozen=True)
class SyncResult:
    """What one step's synchronisation did on this rank."""

    sent_bytes: int
    """Bytes of gradients handed to the group."""
    messages: int
    own_norm: float | None
    """Norm of this rank's own gradient before it was summed; None when not measured."""
    hidden_s: float = 0.0
    """Seconds in which messages were under way while backward still ran."""
    under_way_s: float = 0.0
    """Seconds in which any message was under way, the hidden ones among them."""
    ready_s: tuple[float, ...] = ()
    """When each message could set out, on the ``time.monotonic`` clock."""


@dataclass(frozen=True)
class Settled:
    """What all ranks agreed on about which parameters take part."""

    unused: tuple[str, ...]
    """Parameters without a gradient on every rank; they keep ``grad`` None and are not sent."""
    repeat: bool
    """Whether this step's gradients are incomplete, and the step has to be done again."""


class Strategy(Protocol):
    """How flat buckets are summed over the ranks; used by the bucketed GradientSync."""

    name: str

    def open(self, flat: Tensor) -> Reduction:
        """The sums of a bucket, in whose ``flat`` (one dimension) backward adds up gradients."""
        ...


class Reduction(Protocol):
    """The sums of one bucket, step after step. All ranks ``start`` theirs in the same order."""

    def begin(self) -> None:
        """A step begins, with a bucket of zeros."""
        ...

    def reach(self, share: int) -> None:
        """From now on backward adds gradients of ``share``; those before it are complete."""
        ...

    def own(self) -> Tensor:
        """This rank's gradient, all its shares together, once they are complete."""
        ...

    def start(self) -> Pending:
        """All shares are complete: begin to replace the bucket by the sum over all ranks."""
        ...


class GradientSync(Protocol):
    """Sums the gradients of all ranks during and after backward. One per training run.

    A step is ``begin``, then for every micro-batch a forward and backward inside ``micro_batch``,
    then ``finish``; when any rank is ``unsettled``, all call ``settle``. ``finish`` also ends a
    step whose backward failed, so that no other rank is left waiting.
    """

    name: str
    needs_backward: bool
    """Whether a rank without windows still has to run a backward of weight zero."""
    can_discard: bool
    """Whether ``finish`` can end a step whose backward did not run on this rank."""
    wants_rows: bool
    """Whether ``begin`` makes use of ``rows``."""
    scale: float
    """What the loss is multiplied by so that the gradients come out as plain sums."""

    def attach(self, model: nn.Module) -> nn.Module:
        """Take charge of the gradients of ``model``; returns the module to call in training."""
        ...

    def go_on(self, took_part: Collection[str]) -> None:
        """Before the first step of a run that was started before: which parameters took part."""
        ...

    def begin(self, measure: bool, rows: Tensor | None = None) -> None:
        """Before a step: gradients become zero; ``measure`` asks for this rank's own norm.

        ``rows``, ``[k]``: those of the table of word embeddings that the batch touches on any rank,
        the same on all; None: not known.
        """
        ...

    def micro_batch(self, share: int, last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch of ``share``; shares come in order.

        In the ``last`` micro-batch of this rank, messages may travel.
        """
        ...

    def finish(self) -> SyncResult:
        """Send what is left and wait until every gradient is the sum over all ranks."""
        ...

    def unsettled(self) -> bool:
        """Whether this rank has news about which parameters take part."""
        ...

    def settle(self, group: Group) -> Settled:
        """Agree among all ranks on the parameters that take part from the next step on."""
        ...
