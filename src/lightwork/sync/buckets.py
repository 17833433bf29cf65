"""Gradients in flat buckets that travel while backward still runs.

The idea is that of PyTorch's DistributedDataParallel (Li et al.: "PyTorch Distributed: Experiences
on Accelerating Data Parallel Training", VLDB 2020): parameters are grouped in the order in which
their gradients become ready, and a bucket is sent as soon as its last gradient is there. Here the
buckets also own zeroing, the gradients come out as sums, and what takes part is agreed by all ranks
instead of searched for in every step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from lightwork.errors import ExchangeError, LightworkError, PeerLostError
from lightwork.sync.contract import Settled, SyncResult
from lightwork.sync.rows import Table, TableSums

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightwork.comm.group import Group, Pending, Transfer
    from lightwork.sync.contract import Reduction, Strategy


FIRST_BYTES = 1 << 20
"""At most in the first bucket, so that the first message sets out early in backward."""


def under_way_s(transfers: Sequence[Transfer], until_s: float = math.inf) -> float:
    """Seconds before ``until_s`` in which at least one of them was under way."""
    total, reached_s = 0.0, -math.inf
    for transfer in sorted(transfers, key=lambda transfer: transfer.started_s):
        end_s = min(transfer.finished_s, until_s)
        total += max(0.0, end_s - max(transfer.started_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total


class Bucket:
    """Some parameters of one dtype and device whose gradients are views of one flat tensor."""

    def __init__(
        self,
        name: str,
        parameters: Sequence[Tensor],
        strategy: Strategy,
        touched: Table | None = None,
    ) -> None:
        """``touched``: the bucket is one table, of which only these rows have a gradient."""
        self.name = name
        self.parameters = list(parameters)
        first = self.parameters[0]
        total = sum(parameter.numel() for parameter in self.parameters)
        self.flat = torch.zeros(total, dtype=first.dtype, device=first.device)
        pieces = self.flat.split([parameter.numel() for parameter in self.parameters])
        self.views = [p.view_as(q) for p, q in zip(pieces, self.parameters, strict=True)]
        self.sums: Reduction = (
            strategy.open(self.flat)
            if touched is None
            else TableSums(strategy, self.flat, first.shape[1], touched)
        )
        self.missing = 0

    def zero(self) -> None:
        """Zero the gradients and put the views back in place.

        ``zero_grad()`` sets ``grad`` to None, after which backward would make new tensors and this
        bucket would send old ones.
        """
        self.flat.zero_()
        self.sums.begin()
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.grad = view
        self.missing = len(self.parameters)


class GradientBuckets:
    """A GradientSync that sums buckets with a Strategy, overlapping with backward.

    Buckets are sent in one fixed order on every rank, whatever becomes ready first on this one, so
    the ranks' messages always match; ``finish`` sends the rest, also after a failure and on a rank
    without windows (its zeros are right). After the first step the ranks agree on the parameters
    that got a gradient anywhere and on the order in which rank 0 saw them. One that turns up later
    makes all ranks settle again and repeat that step.
    """

    needs_backward = False
    can_discard = True
    scale = 1.0

    def __init__(
        self,
        strategy: Strategy,
        bucket_bytes: int,
        tables: Sequence[Table] = (),
        overlap: bool = True,
    ) -> None:
        """Sum with ``strategy``.

        Args:
            strategy: sums one bucket over the ranks.
            bucket_bytes: about how large a bucket is, but for the first, which is small.
            tables: parameters of which only some rows get a gradient in a step.
            overlap: whether buckets set out during backward, or all after it.
        """
        self.name = strategy.name
        self.buckets: list[Bucket] = []
        self._strategy = strategy
        self._bucket_bytes = bucket_bytes
        self._overlap = overlap
        self._tables = {table.name: table for table in tables}
        self.wants_rows = bool(tables)
        self._names: list[str] = []
        self._parameters: list[Tensor] = []
        self._bucket_of: dict[int, Bucket] = {}  # by number of the parameter
        self._ready: dict[int, None] = {}  # numbers with a gradient this step, in order
        self._known = False
        self._earlier: list[int] = []
        self._armed = False
        self._final: set[int] = set()  # numbers of which this micro-batch has had the gradient
        self._measure = False
        self._sent = 0
        self._pending: list[tuple[int, Pending]] = []
        self._squares: list[Tensor] = []

    def attach(self, model: nn.Module) -> nn.Module:
        """Register for every trainable parameter; a tied one counts once."""
        for number, (name, parameter) in enumerate(
            (n, p) for n, p in model.named_parameters() if p.requires_grad
        ):
            self._names.append(name)
            self._parameters.append(parameter)
            parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: self._gradient_ready(number)
            )
        # Until the real order is known: backward reaches the last layers first.
        self._form_buckets(list(reversed(range(len(self._parameters)))))
        return model

    def _form_buckets(self, order: list[int]) -> None:
        self.buckets, self._bucket_of = [], {}
        for numbers in self._grouped(order):
            touched = self._tables.get(self._names[numbers[0]])
            parameters = [self._parameters[number] for number in numbers]
            bucket = Bucket(self._names[numbers[0]], parameters, self._strategy, touched)
            self.buckets.append(bucket)
            self._bucket_of.update(dict.fromkeys(numbers, bucket))

    def _grouped(self, order: list[int]) -> Iterator[list[int]]:
        """Runs of ``order`` of one kind that fill a bucket; a larger one, and a table, stands
        alone.
        """
        run: list[int] = []
        run_bytes, kind = 0, None
        most_bytes = min(FIRST_BYTES, self._bucket_bytes)
        for number in order:
            parameter = self._parameters[number]
            if run and (
                (parameter.dtype, parameter.device) != kind
                or run_bytes + parameter.nbytes > most_bytes
                or self._is_table(number)
                or self._is_table(run[0])
            ):
                yield run
                run, run_bytes, most_bytes = [], 0, self._bucket_bytes
            kind = (parameter.dtype, parameter.device)
            run.append(number)
            run_bytes += parameter.nbytes
        if run:
            yield run

    def _is_table(self, number: int) -> bool:
        return self._names[number] in self._tables

    def go_on(self, took_part: Collection[str]) -> None:
        """What took part in the steps before this start takes part in those after it."""
        self._earlier = [n for n, name in enumerate(self._names) if name in took_part]

    def begin(self, measure: bool, rows: Tensor | None = None) -> None:
        """Zero all gradients; the ones that take no part stay None."""
        for table in self._tables.values():
            table.begin(rows, checked=measure or not self._known)
        for bucket in self.buckets:
            bucket.zero()
        for number, parameter in enumerate(self._parameters):
            if number not in self._bucket_of:
                parameter.grad = None
        self._measure, self._sent = measure, 0
        self._pending, self._squares = [], []
        self._ready = {}

    @contextmanager
    def micro_batch(self, share: int, last: bool) -> Iterator[None]:
        """Only in the last micro-batch of this rank do gradients become final."""
        for bucket in self.buckets:
            bucket.sums.reach(share)
        self._armed = last and self._overlap
        self._final.clear()
        try:
            yield
        finally:
            self._armed = False

    def _gradient_ready(self, number: int) -> None:
        self._ready.setdefault(number)
        bucket = self._bucket_of.get(number)
        if bucket is None or not self._armed:
            return
        if number in self._final:  # it adds to what was final
            self._refuse_late(number, bucket)
            return
        self._final.add(number)
        bucket.missing -= 1
        while self._sent < len(self.buckets) and self.buckets[self._sent].missing <= 0:
            self._send_next()

    def _refuse_late(self, number: int, bucket: Bucket) -> None:
        """Backward in pieces may come back to a parameter, but not once its bucket has left."""
        if bucket in self.buckets[: self._sent]:
            raise RuntimeError(
                f"{self._names[number]} got a gradient again after its sum had set out, so the sum "
                "would miss it. Checkpointing does that to a parameter used in two of its pieces: "
                "say use_reentrant=False there"
            )

    def _send_next(self) -> None:
        bucket = self.buckets[self._sent]
        if self._measure:
            own = bucket.sums.own()
            self._squares.append(torch.linalg.vector_norm(own, dtype=torch.float64) ** 2)
        self._sent += 1
        with self._speaking_of(self._sent):
            self._pending.append((self._sent, bucket.sums.start()))

    def finish(self) -> SyncResult:
        """Send the remaining buckets and wait for all."""
        backward_ended_s = time.monotonic()
        while self._sent < len(self.buckets):
            self._send_next()
        transfers = [self._arrived(number, pending) for number, pending in self._pending]
        norm = float(torch.stack(self._squares).sum().sqrt()) if self._squares else None
        return SyncResult(
            sent_bytes=sum(transfer.sent_bytes for transfer in transfers),
            messages=len(transfers),
            own_norm=norm,
            hidden_s=under_way_s(transfers, backward_ended_s),
            under_way_s=under_way_s(transfers),
            ready_s=tuple(transfer.started_s for transfer in transfers),
        )

    def _arrived(self, number: int, pending: Pending) -> Transfer:
        with self._speaking_of(number):
            return pending.wait()

    @contextmanager
    def _speaking_of(self, number: int) -> Iterator[None]:
        """Errors say which bucket it was; an unforeseen one ends this rank, for others wait."""
        try:
            yield
        except PeerLostError as error:
            raise PeerLostError(f"{self._place(number)}: {error}") from error
        except LightworkError:
            raise
        except Exception as error:
            words = f"{self._place(number)}: {type(error).__name__}: {error}"
            raise ExchangeError(words) from error

    def _place(self, number: int) -> str:
        return f"bucket {number} of {len(self.buckets)} (from {self.buckets[number - 1].name} on)"

    def unsettled(self) -> bool:
        """After the first step, and when a parameter outside the buckets got a gradient."""
        return not self._known or any(number not in self._bucket_of for number in self._ready)

    def settle(self, group: Group) -> Settled:
        """Form the buckets anew from what all ranks saw, in the order of the lowest rank."""
        seen = group.gather_json(list(self._ready))
        order = list(dict.fromkeys([n for ready in seen for n in ready] + self._earlier))
        before = set(self._bucket_of)
        if self._known:  # what took part once goes on taking part
            order = list(dict.fromkeys([*self._bucket_of, *order]))
        repeat = not set(order) <= before
        self._known = True
        self._form_buckets(order)
        unused = [number for number in range(len(self._parameters)) if number not in order]
        for number in unused:
            self._parameters[number].grad = None
        return Settled(tuple(self._names[number] for number in unused), repeat)
