"""How long each rank is at work between two moments at which all ranks meet.

Every rank waits for the slowest inside messages, so the seconds from start to end of a step, and of
its backward, are those of the slowest on all of them: a clock around either never finds it. What
tells them apart is the time from one meeting to when a rank has done its part of the next, without
what it waited for others on the way. It needs no common clock, only one on each machine.
"""

from __future__ import annotations

import time

from lightwork.comm.message import waited_s


class Pace:
    """Measures one rank, on its host."""

    def __init__(self) -> None:
        self.met()

    def met(self) -> None:
        """All ranks have just met: none goes on from here before the others."""
        self._met_s, self._waited_s = time.monotonic(), waited_s()

    def busy_s(self) -> float:
        """Seconds at work since then, in which this thread did not wait for a message."""
        return time.monotonic() - self._met_s - (waited_s() - self._waited_s)
