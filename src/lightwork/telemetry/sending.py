"""A sink behind a thread: what goes over a network, however long that takes, holds up nobody."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lightwork.disk import SILENCE_S

if TYPE_CHECKING:
    from lightwork.telemetry.sinks import Sink

log = logging.getLogger("lightwork")

KEPT = 20_000
"""Calls that wait to be sent; what comes while so many do is left out."""
PATIENCE_S = 30.0
"""How long the end of a run waits for what is left to be sent."""
HURRY_S = 10.0
"""How long one waits that failed, or was asked to end: less than ``launch.grace_s``."""


class Sending:
    """Opens a sink and hands calls on to it, in order, all in a thread of its own.

    What cannot be sent is said once and left out; it stands in the files of the run all the same.
    """

    def __init__(
        self, name: str, open_sink: Callable[[], Sink], patience_s: float = PATIENCE_S
    ) -> None:
        self._name, self._open, self._patience_s = name, open_sink, patience_s
        self._calls: queue.Queue[Callable[[Sink], None] | None] = queue.Queue()
        self._lost = 0
        self._told = False
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name=f"telemetry {name}", daemon=True)
        self._thread.start()

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
        """Several scalars of the same step."""
        self._hand_over(lambda sink: sink.scalars(values, step, time_unix_s))

    def text(self, tag: str, text: str) -> None:
        """A page of plain text."""
        self._hand_over(lambda sink: sink.text(tag, text))

    def close(self, failed: bool) -> None:
        """Send what is left, for no longer than the patience there is."""
        self._calls.put(lambda sink: sink.close(failed))
        self._calls.put(None)
        patience_s = min(self._patience_s, HURRY_S) if failed else self._patience_s
        self._thread.join(min(SILENCE_S, patience_s))
        if self._thread.is_alive():
            log.info("waiting up to %g s for %s to take what is left", patience_s, self._name)
            self._thread.join(patience_s)
        if self._thread.is_alive():
            log.warning("%s did not take all within %g s", self._name, patience_s)
        elif self._lost and not self._given_up:
            log.warning("%s lacks %d entries of this start", self._name, self._lost)
        self._given_up = True  # whatever still happens there, nobody listens any more

    def _hand_over(self, call: Callable[[Sink], None]) -> None:
        if self._given_up or self._calls.qsize() >= KEPT:
            self._lost += 1
        else:
            self._calls.put(call)

    def _run(self) -> None:
        sink = self._opened()
        while (call := self._calls.get()) is not None:
            if sink is None:
                continue
            try:
                call(sink)
            except Exception as error:  # noqa: BLE001 - a page of curves is not worth a run
                self._complain("what it does not take is left out", error)
                self._lost += 1

    def _opened(self) -> Sink | None:
        try:
            return self._open()
        except Exception as error:  # noqa: BLE001 - as above
            self._complain("training goes on without it", error)
            self._given_up = True
            return None

    def _complain(self, what: str, error: Exception) -> None:
        if not self._told and not self._given_up:
            self._told = True
            words = " ".join(str(error).split())[:300]
            log.warning("%s (telemetry.sinks) fails, and %s: %s", self._name, what, words)
