"""Signals that ask a rank to leave: at once where nothing would be lost, else when it is ready."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""SIGUSR1 is what batch systems can be told to send some time before they end a job."""

INSIST_AFTER_S = 1.0
"""A second signal sooner than this is the same wish, sent twice: Ctrl-C reaches whole groups."""


class Stopped(SystemExit):
    """The process leaves because it was asked to; the exit code is 128 + the signal's number."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


def name_of(signum: int) -> str:
    """``SIGTERM`` for 15."""
    return signal.Signals(signum).name


class StopSignals:
    """What SIGINT, SIGTERM and SIGUSR1 asked of this process since the block was entered.

    The first one raises :class:`Stopped` wherever the program is, except in :meth:`heeded`, where
    it is only noted. Another one, a second later or more, raises it there too. To be entered in
    the main thread, where Python handles signals.
    """

    def __init__(self) -> None:
        self.received = 0
        """The number of the first signal; 0: none yet."""
        self._received_s = 0.0
        self._heeded = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self._before = {number: signal.signal(number, self._note) for number in ASKING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Inside, somebody looks at :attr:`received` again and again, and leaves in good order."""
        self._heeded = True
        try:
            yield
        finally:
            self._heeded = False

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside :meth:`heeded`: a part that takes long, and in which nothing would be lost."""
        self._heeded = False
        try:
            if self.received:
                raise Stopped(self.received)
            yield
        finally:
            self._heeded = True

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        insists = self.received and now - self._received_s >= INSIST_AFTER_S
        if not self.received:
            self.received, self._received_s = signum, now
        if insists or not self._heeded:
            raise Stopped(self.received)
