"""From the plan to tensors: one prefetch thread that reads the store ahead of the training step."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lightwork.data.plan import EpochPlan, MicroBatch, Windows, cut
from lightwork.data.streams import stream_seed

if TYPE_CHECKING:
    from torch import Tensor

Item = TypeVar("Item")


@dataclass(frozen=True)
class Position:
    """A place in the data: batch ``batch`` of epoch ``epoch`` comes next."""

    epoch: int
    batch: int


@dataclass(frozen=True)
class Piece:
    """One micro-batch of one share, with its tensors."""

    share: int
    index: int
    seed: int
    """Of this micro-batch's random stream: the same wherever and however often it is computed."""
    windows: Windows
    padded_tokens: int
    tensors: Any


@dataclass(frozen=True)
class Work:
    """What this rank does in one step, and what it needs to know of the whole batch."""

    step: int
    position: Position
    pieces: list[Piece]
    batch_windows: int
    batch_weight: float
    """The loss count of the whole batch, over all ranks: what the summed loss is divided by."""
    real_tokens: int
    padded_tokens: int
    micro_batch_tokens: int
    """What its micro-batches were cut to."""
    rows: Tensor | None = None
    """Of the table of word embeddings, those that the whole batch touches, over all ranks."""

    @property
    def windows(self) -> list[int]:
        """The windows of this rank."""
        return [int(window) for piece in self.pieces for window in piece.windows]


@dataclass(frozen=True)
class Cutting:
    """How every batch is formed and cut; the same on every rank."""

    seed: int
    batch_size: int
    shares: int
    micro_batch_tokens: int
    round_to: int
    """Windows are padded to a multiple of so many tokens."""


class Loader:
    """The work of one rank, step after step, from any position.

    ``lengths`` and ``weights`` are those of all windows. ``collate(windows, padded_tokens)`` makes
    the tensors of a micro-batch; it runs in the prefetch thread.
    """

    def __init__(
        self,
        lengths: NDArray[np.integer],
        weights: NDArray[np.floating],
        cutting: Cutting,
        hosted: range,
        collate: Callable[[Windows, int], Any],
        touched: Callable[[Windows], Tensor] | None = None,
    ) -> None:
        """``hosted``: the shares of this rank; ``touched`` gives the rows of ``Work.rows``."""
        self._lengths = lengths
        self._weights = weights
        self.cutting = cutting
        self._hosted = hosted
        self._collate = collate
        self._touched = touched
        self.batches_per_epoch = -(-len(lengths) // cutting.batch_size)

    def position(self, step: int) -> Position:
        """The position after ``step`` updates."""
        return Position(*divmod(step, self.batches_per_epoch))

    def one(self, step: int) -> Work | Exception:
        """The work of ``step`` alone, or why this rank has none: for a step that all decide on."""
        try:
            return next(self.work(step, step))
        except Exception as error:  # noqa: BLE001 - goes into the Control message of the step
            return error

    def rows(self, step: int) -> Tensor | None:
        """``Work.rows`` of a step whose work could not be had."""
        if self._touched is None:
            return None
        position = self.position(step - 1)
        plan = EpochPlan(self.cutting.seed, position.epoch, self._lengths, self.cutting.batch_size)
        return self._touched(plan.batch(position.batch))

    def cut_to(self, micro_batch_tokens: int) -> None:
        """From now on micro-batches have at most so many padded tokens."""
        self.cutting = replace(self.cutting, micro_batch_tokens=micro_batch_tokens)

    def fitting(self, work: Work) -> Work:
        """``work``, cut anew if it was cut before the last :meth:`cut_to`."""
        if work.micro_batch_tokens == self.cutting.micro_batch_tokens:
            return work
        return next(self.work(work.step, work.step))

    def filler(self) -> Piece:
        """The first window as a micro-batch, for a rank that has none but needs a backward."""
        tensors = self._collate(np.zeros(1, np.int32), int(self._lengths[0]))
        return Piece(0, 0, 0, np.zeros(0, np.int32), 0, tensors)

    def largest(self, count: int) -> Piece:
        """A micro-batch of ``count`` windows as long as the longest of all."""
        windows = np.full(count, int(self._lengths.argmax()), np.int32)
        round_to = self.cutting.round_to
        padded_tokens = -(-int(self._lengths.max()) // round_to) * round_to
        tensors = self._collate(windows, padded_tokens)
        return Piece(0, 0, 0, windows, padded_tokens, tensors)

    def work(self, first_step: int, last_step: int) -> Iterator[Work]:
        """The work of steps ``first_step`` … ``last_step``, both included, without a thread."""
        plan, epoch = None, -1
        for step in range(first_step, last_step + 1):
            position = self.position(step - 1)
            if plan is None or epoch != position.epoch:
                epoch = position.epoch
                plan = EpochPlan(self.cutting.seed, epoch, self._lengths, self.cutting.batch_size)
            yield self._step(step, position, plan.batch(position.batch))

    def _step(self, step: int, position: Position, windows: Windows) -> Work:
        cutting = self.cutting
        parts = cut(
            windows,
            self._lengths[windows],
            cutting.shares,
            cutting.micro_batch_tokens,
            cutting.round_to,
        )
        pieces = [
            self._piece(step, share, index, micro)
            for share in self._hosted
            for index, micro in enumerate(parts[share])
        ]
        return Work(
            step=step,
            position=position,
            pieces=pieces,
            batch_windows=len(windows),
            batch_weight=float(self._weights[windows].sum(dtype=np.float64)),
            real_tokens=sum(int(self._lengths[piece.windows].sum()) for piece in pieces),
            padded_tokens=sum(len(piece.windows) * piece.padded_tokens for piece in pieces),
            micro_batch_tokens=cutting.micro_batch_tokens,
            rows=self._touched(windows) if self._touched else None,
        )

    def _piece(self, step: int, share: int, index: int, micro: MicroBatch) -> Piece:
        return Piece(
            share=share,
            index=index,
            seed=stream_seed(self.cutting.seed, step, share, index),
            windows=micro.windows,
            padded_tokens=micro.padded_tokens,
            tensors=self._collate(micro.windows, micro.padded_tokens),
        )


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class Prefetch(Generic[Item]):
    """Iterate ``items`` in a thread, ``depth`` ahead; an exception there is raised here.

    Use as a context manager: leaving it ends the thread.
    """

    def __init__(self, items: Iterable[Item], depth: int = 2) -> None:
        self._items = items
        self._queue: queue.Queue[Item | _Failure | None] = queue.Queue(depth)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lightwork-prefetch", daemon=True)

    def __enter__(self) -> Prefetch[Item]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        while self._thread.is_alive():
            self._drain()
            self._thread.join(0.05)

    def _drain(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()

    def _run(self) -> None:
        try:
            for item in self._items:
                self._put(item)
                if self._closed.is_set():
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            self._put(_Failure(error))

    def _put(self, item: Item | _Failure | None) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def __iter__(self) -> Iterator[Item]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, _Failure):
                raise item.error
            yield item
