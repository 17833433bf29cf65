"""Exchanges of several messages in a row, off the critical path of who asks for them.

A ring needs the answer to one message before it can send the next. Who waited for it between two
pieces of backward would hold up backward. On CPU a thread does such journeys, in the order in
which they were asked for, with connections of its own, so that its messages never mix with others;
on CUDA they are queued on a stream of their own, and nobody waits on the host.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from lightwork.comm.message import Finished, Pending, Transfer, standing_still

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.comm.group import Group

AHEAD = 4
"""Journeys under way at once: while what one brought is added up, others keep the link busy."""
CHUNKS = 8
"""Of a bucket, so that little of it is under way alone at its end."""
LEAST_BYTES, MOST_BYTES = 256 * 2**10, 2**20
"""Of a message: below, what it costs by itself counts; above, it only takes room."""
ALONE = 2**15 - 16
"""Elements that PyTorch adds without the help of other threads; its ``at::internal::GRAIN_SIZE``
is a little more."""
ENDS_WITHIN_S = 10.0
"""That a thread of a closed lane gets: its messages have been waited for, or have failed."""

Journey = Iterator[Pending]
"""Messages, each posted when the one before it has arrived."""


def chunks(flat: Tensor, ranks: int) -> Sequence[Tensor]:
    """``flat`` in pieces whose ``ranks``-th part is a message: as few as keep the link busy."""
    part_bytes = flat.nbytes // ranks
    return flat.tensor_split(
        max(-(-part_bytes // MOST_BYTES), min(CHUNKS, part_bytes // LEAST_BYTES), 1)
    )


def travel(journeys: Iterable[Journey]) -> int:
    """Make ``journeys``, up to ``AHEAD`` of them in turn; returns the bytes this rank sent.

    While one waits, messages of the others are under way. All ranks post in one order, as long as
    they make the same journeys, each of as many messages.
    """
    to_come, under_way, sent_bytes = iter(journeys), deque[tuple[Journey, Pending]](), 0
    while True:
        while len(under_way) < AHEAD and (journey := next(to_come, None)) is not None:
            if (message := next(journey, None)) is not None:
                under_way.append((journey, message))
        if not under_way:
            return sent_bytes
        journey, message = under_way.popleft()
        sent_bytes += message.wait().sent_bytes
        if (following := next(journey, None)) is not None:
            under_way.append((journey, following))


def add(total: Tensor, other: Tensor) -> Tensor:
    """Add ``other`` to ``total``, of one dimension, on this core alone: backward has the others."""
    if total.is_cuda:
        return total.add_(other)
    for own, its in zip(total.split(ALONE), other.split(ALONE), strict=True):
        own.add_(its)
    return total


class Lane:
    """Carries out journeys in the order in which they come, which is the same on all ranks."""

    def __init__(self, group: Group) -> None:
        """``group``: whose messages these are, and nobody else's."""
        self.group = group
        self._errands: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def go(self, journeys: Iterable[Journey], device: torch.device) -> Pending:
        """Begin ``journeys``, which make what is on ``device`` travel."""
        if self.group.size == 1:
            return Finished()
        if device.type == "cuda":
            return self._queue(journeys, device)
        errand = _Errand(journeys)
        if self._thread is None:
            self._thread = threading.Thread(
                target=_serve, args=(self._errands,), name="lightwork-lane", daemon=True
            )
            self._thread.start()
        self._errands.put(errand)
        return errand

    def close(self) -> None:
        """End the thread; its messages have arrived, or their connections are broken."""
        if self._thread is not None:
            self._errands.put(None)
            self._thread.join(ENDS_WITHIN_S)
            self._thread = None

    def _queue(self, journeys: Iterable[Journey], device: torch.device) -> Pending:
        side = self._streams.get(device)
        if side is None:
            side = self._streams[device] = torch.cuda.Stream(device)
        started_s = time.monotonic()
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            sent_bytes = travel(journeys)
        return _Queued(side.record_event(), started_s, sent_bytes)


def _serve(errands: queue.SimpleQueue[_Errand | None]) -> None:
    broken: BaseException | None = None
    while (errand := errands.get()) is not None:
        broken = errand.run(broken)


class _Errand:
    """Journeys that a thread makes."""

    def __init__(self, journeys: Iterable[Journey]) -> None:
        self._journeys = journeys
        self._started_s = time.monotonic()
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._transfer: Transfer | None = None

    def run(self, broken: BaseException | None) -> BaseException | None:
        """Make them, unless others before them failed; returns why this lane carries no more."""
        try:
            if broken is not None:
                raise broken
            sent_bytes = travel(self._journeys)
            self._transfer = Transfer(self._started_s, time.monotonic(), sent_bytes)
        except BaseException as error:  # noqa: BLE001 - for who waits
            self._error = error
        self._journeys = ()  # what they hold is free when they are over
        self._over.set()
        return self._error

    def wait(self) -> Transfer:
        with standing_still():
            self._over.wait()
        if self._error is not None:
            raise self._error
        assert self._transfer is not None
        return self._transfer

    def done(self) -> bool:
        return self._over.is_set()


class _Queued:
    """Journeys that a stream makes."""

    def __init__(self, end: torch.cuda.Event, started_s: float, sent_bytes: int) -> None:
        self._end = end
        self._started_s = started_s
        self._sent_bytes = sent_bytes
        self._transfer: Transfer | None = None

    def wait(self) -> Transfer:
        if self._transfer is None:
            torch.cuda.current_stream().wait_event(self._end)
            self._transfer = Transfer(self._started_s, time.monotonic(), self._sent_bytes)
        return self._transfer

    def done(self) -> bool:
        return bool(self._end.query())
