"""PyTorch's own DistributedDataParallel behind the same seam: a second opinion and a yardstick.

It divides the summed gradients by the number of ranks, so it is given that many times the loss. It
cannot end a step that failed on one rank before its backward: the others then wait for a message
that never comes, until the process that failed has ended and broken the connection.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from torch.distributed import DistError
from torch.nn.parallel import DistributedDataParallel

from lightwork.errors import PeerLostError, StepError
from lightwork.sync.contract import Settled, SyncResult

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightwork.comm.group import Group


class DdpSync:
    """A GradientSync made of ``torch.nn.parallel.DistributedDataParallel``, bucket views on."""

    name = "ddp"
    needs_backward = True
    wants_rows = False

    def __init__(self, group: Group, bucket_bytes: int) -> None:
        self.scale = float(group.size)
        self.can_discard = group.size == 1
        self._group = group
        self._bucket_bytes = bucket_bytes
        self._wrapper: DistributedDataParallel | None = None
        self._parameters: dict[str, nn.Parameter] = {}
        self._bytes = 0

    def attach(self, model: nn.Module) -> nn.Module:
        """Wrap the model; alone there is nothing to wrap."""
        self._parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._bytes = sum(parameter.nbytes for parameter in self._parameters.values())
        if self._group.process_group is not None:
            with warnings.catch_warnings():  # newer ones know broadcast_buffers by another name
                warnings.simplefilter("ignore", FutureWarning)
                self._wrapper = DistributedDataParallel(
                    model,
                    process_group=self._group.process_group,
                    bucket_cap_mb=self._bucket_bytes / 2**20,
                    gradient_as_bucket_view=True,
                    broadcast_buffers=False,
                )
        return self._wrapper or model

    def go_on(self, took_part: Collection[str]) -> None:
        """Every parameter takes part."""

    def begin(self, measure: bool, rows: Tensor | None = None) -> None:  # noqa: ARG002 - the wrapper hides both
        """Zero all gradients. This rank's own norm is not measurable here."""
        for parameter in self._parameters.values():
            parameter.grad = None

    @contextmanager
    def micro_batch(self, share: int, last: bool) -> Iterator[None]:  # noqa: ARG002
        """Messages travel in the backward of the last micro-batch only."""
        try:
            with nullcontext() if last or not self._wrapper else self._wrapper.no_sync():
                yield
        except RuntimeError as error:
            if isinstance(error, DistError) or "gloo" in str(error):
                reason = str(error).splitlines()[0]
                raise PeerLostError(
                    f"another rank went away during backward ({reason}). The first rank that "
                    "failed has the reason."
                ) from error
            raise

    def finish(self) -> SyncResult:
        """The wrapper has waited inside backward; how long it stood still is not known."""
        unused = [name for name, p in self._parameters.items() if p.grad is None]
        if unused:
            raise StepError(
                "sync.strategy ddp cannot train a model of which some parameters get no gradient: "
                f"{', '.join(unused[:5])}{' …' if len(unused) > 5 else ''}. "
                "Use sync.strategy all_reduce, which leaves them out."
            )
        sent_bytes = self._bytes if self._group.size > 1 else 0
        return SyncResult(sent_bytes, 0, None)

    def unsettled(self) -> bool:
        """Never: every parameter takes part."""
        return False

    def settle(self, group: Group) -> Settled:  # noqa: ARG002 - nothing to agree on
        """Every parameter takes part."""
        return Settled((), repeat=False)
