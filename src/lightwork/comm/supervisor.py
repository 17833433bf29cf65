"""Starts this machine's ranks, sees the first death, ends the others, says what happened.

The store where ranks meet lives here, on a loopback socket that listens before the first rank
starts; torch, which the store needs, is imported while the ranks import theirs. Each rank leads
its own session, so a terminal's Ctrl-C reaches only the supervisor, and whatever a rank started
can be ended with it. Ranks end themselves if the supervisor vanishes
(:func:`lightwork.comm.parent.die_with_parent`). A new attempt uses the same store under another
prefix, where no address of the earlier one is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from lightwork.comm.attempt import Answer, Attempt, Launch, Stop
from lightwork.comm.listener import LOOPBACK, listen, port_of
from lightwork.comm.signals import ASKING
from lightwork.comm.verdict import say
from lightwork.disk import scratch_folder

__all__ = ["Answer", "Launch", "supervise"]


def supervise(launch: Launch) -> int:
    """Run all ranks to their end, again after a failure if ``launch`` wishes; returns the exit code
    of the whole.

    0 if every rank returned 0. Otherwise that of the rank that failed first, 128 + signal if a
    signal ended it, 124 where one hung; a rank that only lost its peer never counts where another
    one's own failure is known. SIGINT, SIGTERM and SIGUSR1 are passed on to all ranks and give 128
    + signal; another one, a second or more later, kills them at once.

    Raises:
        LaunchError: the command cannot be started.
    """
    store = _StoreHost(listen())
    with scratch_folder("ranks") as folder, _catch_signals() as stop:
        try:
            return _attempts(launch, store, folder, stop)
        finally:
            store.close()


def _attempts(launch: Launch, store: _StoreHost, folder: Path, stop: Stop) -> int:
    for number in count():
        attempt = Attempt(launch, number, store.port, folder / f"attempt{number}")
        try:
            attempt.start()
            store.start()
            attempt.watch(stop)
        finally:
            attempt.close()
        failure = attempt.failure()
        if launch.again is not None and attempt.finished:
            return 0  # a signal came when all was done
        if stop.first is not None:
            return 128 + stop.first
        if failure is None:
            return 0
        asked = launch.again is not None and not failure.repeats
        answer = launch.again(failure) if launch.again is not None and asked else None
        if answer is None or not answer.goes_on:
            attempt.report()
            say(answer.words if answer is not None else "")
            return failure.code
        say(answer.words)
        say(attempt.details)
    raise AssertionError("there is always another number")


class _StoreHost:
    """The store, created in a thread so that importing torch delays nothing."""

    def __init__(self, listener: int) -> None:
        self.port = port_of(listener)
        self._listener = listener
        self._kept: list[object] = []
        self._thread = threading.Thread(target=self._host, name="store")

    def start(self) -> None:
        """Begin to answer, unless it does already."""
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        if self._thread.ident is None:
            os.close(self._listener)
        else:
            self._thread.join()
        self._kept.clear()

    def _host(self) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        self._kept.append(
            TCPStore(
                LOOPBACK,
                self.port,
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=self._listener,  # TCPStore by itself listens everywhere
            )
        )


@contextlib.contextmanager
def _catch_signals() -> Iterator[Stop]:
    stop = Stop()
    before = {number: signal.signal(number, stop.note) for number in ASKING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
