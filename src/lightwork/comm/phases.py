"""What each rank is at, in a file of memory that its supervisor reads while ranks work, or hang.

One slot of fixed size per rank, and in it two records that are written in turn, each with a
checksum of its own. Whatever the moment at which a slot is read, or its writer stopped, at least
one of the two is whole, and the one with the higher count is the newer one. Where no supervisor of
ours started this process, nothing is written.
"""

from __future__ import annotations

import faulthandler
import mmap
import signal
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

PATH = "LIGHTWORK_PHASES"
"""The environment variable that names the file."""
STACK_SIGNAL = signal.SIGUSR2
"""Makes a rank write the stacks of all its threads to the file of :func:`stack_path`."""
SHOWN_EXAMPLES = 5
"""More are not written; who gives one more than these shows that there are more."""

_RECORD_BYTES = 512
_SLOT_BYTES = 2 * _RECORD_BYTES
_CHECK = struct.Struct("<I")
_BODY = struct.Struct("<Qqd?15s468s")
"""Count, step, since when, whether it waits, name of the phase, examples."""
assert _CHECK.size + _BODY.size == _RECORD_BYTES


@dataclass(frozen=True)
class Phase:
    """What a rank said last."""

    count: int
    """How often it said something: it makes progress while this grows."""
    step: int
    """The update it is at; 0 before the first one of this attempt."""
    since_s: float
    """When this began, on the ``time.monotonic`` clock, which all processes of a machine share."""
    waits: bool
    """Whether it waits for a message of other ranks."""
    name: str
    examples: str
    """Ids of the examples at work, in words; may be empty."""

    @property
    def place(self) -> str:
        """Where this is, in words that follow "was ended by SIGKILL"."""
        return f"in step {self.step} ({self.name})" if self.step else f"before a step ({self.name})"


class Slot:
    """Where this process, a rank, writes what it is at; only the thread that made it does."""

    def __init__(self, path: Path, rank: int) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._start = rank * _SLOT_BYTES
        self._thread = threading.get_ident()
        self._count = 0
        self._step = 0
        self._name = b""
        self._examples = b""

    def enter(self, name: str, step: int | None = None) -> None:
        """A phase begins, or the same one goes on; with ``step`` an update begins."""
        if threading.get_ident() == self._thread:
            self._name = name.encode()
            if step is not None:
                self._step, self._examples = step, b""
            self._write(waits=False)

    def work_on(self, examples: str) -> None:
        """What the phases from here on work on, until the next update begins."""
        self._examples = examples.encode()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, this rank waits for others and is not to blame for that."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._write(waits=True)
        try:
            yield
        finally:
            self._write(waits=False)

    def _write(self, waits: bool) -> None:
        self._count += 1
        now = time.monotonic()
        body = _BODY.pack(self._count, self._step, now, waits, self._name, self._examples)
        start = self._start + (self._count & 1) * _RECORD_BYTES
        self._memory[start : start + _RECORD_BYTES] = _CHECK.pack(zlib.crc32(body)) + body


_OPEN: list[Slot] = []
"""The slot of this process, if it has one."""
_NOBODY = nullcontext()


def open_slot(environ: Mapping[str, str]) -> None:
    """Begin to write, where a supervisor asks for it, and to show stacks on its signal."""
    if PATH not in environ or _OPEN:
        return
    path, rank = Path(environ[PATH]), int(environ["RANK"])
    stacks = stack_path(path, rank).open("w")  # open as long as we live
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
    _OPEN.append(Slot(path, rank))
    _OPEN[0].enter("start")


def enter(name: str, step: int | None = None) -> None:
    """This rank begins the phase ``name``, or makes progress in it; ``step``: an update begins."""
    for slot in _OPEN:
        slot.enter(name, step)


def work_on(examples: Callable[[], Sequence[str]]) -> None:
    """The phases that follow work on these ids, which are only asked for if somebody reads them."""
    for slot in _OPEN:
        slot.work_on(_words(examples()))


def waiting() -> AbstractContextManager[None]:
    """Around a wait for other ranks."""
    return _OPEN[0].waiting() if _OPEN else _NOBODY


def _words(ids: Sequence[str]) -> str:
    more = " …" if len(ids) > SHOWN_EXAMPLES else ""
    return ", ".join(ids[:SHOWN_EXAMPLES]) + more


def stack_path(phases: Path, rank: int) -> Path:
    """Where a rank writes its stacks."""
    return phases.with_name(f"{phases.name}.stack{rank}")


class Phases:
    """The file as those have it who read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    @classmethod
    def made(cls, path: Path, ranks: int) -> Phases:
        """A new one, in which nobody has said anything."""
        path.write_bytes(bytes(ranks * _SLOT_BYTES))
        return cls(path)

    def read(self, rank: int) -> Phase | None:
        """The last words of a rank; None where it said nothing yet."""
        start = rank * _SLOT_BYTES
        records = [self._record(start), self._record(start + _RECORD_BYTES)]
        return max((r for r in records if r is not None), key=lambda r: r.count, default=None)

    def _record(self, start: int) -> Phase | None:
        raw = self._memory[start : start + _RECORD_BYTES]
        body = raw[_CHECK.size :]
        if _CHECK.unpack_from(raw)[0] != zlib.crc32(body):
            return None
        count, step, since_s, waits, name, examples = _BODY.unpack(body)
        words = [text.rstrip(b"\0").decode("utf-8", "ignore") for text in (name, examples)]
        return Phase(count, step, since_s, waits, *words)
