"""One message under way: what every verb of a group returns."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lightwork.comm.phases import waiting
from lightwork.errors import PeerLostError

if TYPE_CHECKING:
    from torch.distributed import Work


_PLACE = re.compile(r"^\[[^\]]*\]\s*")
"""Where in gloo's sources an error was thrown."""


class _Waited(threading.local):
    seconds = 0.0


_WAITED = _Waited()


def waited_s() -> float:
    """Seconds this thread has stood still in ``wait``, since it began."""
    return _WAITED.seconds


@contextmanager
def standing_still() -> Iterator[None]:
    """Around a wait for other ranks: it is counted, and said to who watches this process."""
    began_s = time.monotonic()
    with waiting():
        yield
    _WAITED.seconds += time.monotonic() - began_s


@dataclass(frozen=True)
class Transfer:
    """When one message was under way on this rank. Times are on the ``time.monotonic`` clock."""

    started_s: float
    finished_s: float
    """CPU: when a collective ended, also if ``wait`` came later; an exchange has no such moment
    and takes the end of ``wait``. CUDA: when ``wait`` had queued the dependency, not the end."""
    sent_bytes: int
    """Bytes of the tensors this rank handed over to be sent, whatever the wire makes of them."""


class Pending(Protocol):
    """A message under way. Its tensors must not be touched before ``wait`` has returned."""

    def wait(self) -> Transfer:
        """Until the result is there. May be called again and then returns the same Transfer.

        On CPU the result is in the tensors when this returns. On CUDA only the current stream is
        made to wait, never the host: work queued on this stream afterwards sees the result.

        Raises:
            PeerLostError: a peer went away, or did not answer within the group's timeout.
        """
        ...

    def done(self) -> bool:
        """Whether ``wait`` would return at once. An exchange on CPU is only done once waited for:
        gloo tells of its end to nobody but the waiting caller."""
        ...


class Finished:
    """The message of a group of one."""

    def __init__(self) -> None:
        now = time.monotonic()
        self._transfer = Transfer(now, now, 0)

    def wait(self) -> Transfer:
        return self._transfer

    def done(self) -> bool:
        return True


class Message:
    """One verb's works; ``post`` starts them. Errors while posting are kept for ``wait``."""

    def __init__(self, verb: str, sent_bytes: int, post: Callable[[], list[Work]]) -> None:
        self._verb = verb
        self._sent_bytes = sent_bytes
        self._works: list[Work] = []
        self._ends: list[float] = []
        self._transfer: Transfer | None = None
        self._error: RuntimeError | None = None
        self._started_s = time.monotonic()
        try:
            self._works = post()
        except RuntimeError as error:  # gloo reports here that the connection broke earlier
            self._error = error

    def note_end(self) -> Message:
        """Ask a CPU collective to tell when it ends, from gloo's own thread."""
        ends = self._ends  # not self: the callback must not keep the tensors alive
        for work in self._works:
            work.get_future().add_done_callback(lambda _: ends.append(time.monotonic()))
        return self

    def wait(self) -> Transfer:
        if self._transfer is None:
            try:
                if self._error is not None:
                    raise self._error
                with standing_still():
                    for work in self._works:
                        work.wait()
            except RuntimeError as error:
                self._error = error
                raise self._peer_lost(error) from error
            finished_s = self._ends[0] if self._ends else time.monotonic()
            self._transfer = Transfer(self._started_s, finished_s, self._sent_bytes)
            self._works = []
        return self._transfer

    def done(self) -> bool:
        return self._error is not None or all(work.is_completed() for work in self._works)

    def _peer_lost(self, error: RuntimeError) -> PeerLostError:
        waited_s = time.monotonic() - self._started_s
        detail = str(error).strip().splitlines()[0].split(" This is typically")[0]
        detail = _PLACE.sub("", detail)
        return PeerLostError(
            f"another rank went away or did not answer: the message '{self._verb}' failed after "
            f"{waited_s:.1f} s ({detail}). The first rank that failed has the reason."
        )
