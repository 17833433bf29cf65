"""Ranks that stand still: which of them is to blame, and what can still be learned of it.

A rank that hangs stops all others, which wait for its message. So the one that counts is one that
has been silent for too long *without* waiting, or that is stopped as a process; one that waits is
never to blame unless all do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lightwork.comm.flight import dumps
from lightwork.comm.phases import STACK_SIGNAL, Phase, Phases, stack_path
from lightwork.comm.verdict import RankProcess
from lightwork.errors import PeerLostError

FIRST_TIMES = 3
"""The timeout of a rank that has not finished an update in this attempt, or is at something slow,
is so many times longer."""
MEETING = "meeting"
WAITING = (MEETING, "sync")
"""Phases in which a rank waits for others, on the device too, where no message can tell."""
SLOW = ("save", "score")
"""Phases that say nothing until they are done, with a slow disk or much text."""
UNLIMITED = "prepare"
"""The phase that may last for hours without a sign."""
_MOST_AT_ONCE_S = 1.0
"""What a single look can add to a silence: where this process was stopped too, nobody is late."""
_STACK_S = 1.0
_LOST = PeerLostError.exit_code
_STACK_LINES = 12


@dataclass
class _Heard:
    """What is known of one rank."""

    phase: Phase | None = None
    silent_s: float = 0.0
    first_step: int = 0
    """The first update of this attempt; 0 until it has begun."""


@dataclass(frozen=True)
class Culprit:
    """A rank that hangs."""

    rank: int
    phase: Phase
    silent_s: float
    stopped: bool


@dataclass(frozen=True)
class Hang:
    """Ranks that stand still, the one most likely to blame first."""

    culprits: tuple[Culprit, ...]
    seen_s: float
    """When it was noticed, on the monotonic clock."""
    details: str = ""
    """The stack of the first one, and files that say more; empty where nothing could be had."""
    others_wait: bool = False


class Watch:
    """Looks at all ranks of an attempt, and knows which of them makes no progress any more."""

    def __init__(self, phases: Phases, ranks: Sequence[RankProcess], timeout_s: float) -> None:
        self._phases = phases
        self._ranks = ranks
        self._timeout_s = timeout_s
        self._heard = [_Heard() for _ in ranks]
        self._looked_s = time.monotonic()

    def look(self, now: float) -> Hang | None:
        """Whether somebody hangs ``now``, a time of the monotonic clock."""
        passed_s = min(now - self._looked_s, _MOST_AT_ONCE_S)
        self._looked_s = now
        alive = [rank for rank in self._ranks if rank.exit_code is None]
        for rank in alive:
            self._hear(rank.number, passed_s)
        late = [c for rank in alive if (c := self._late(rank)) is not None]
        guilty = [culprit for culprit in late if culprit.stopped or not waits(culprit.phase)]
        if not guilty and len(late) < len(alive):
            return None
        order = sorted(guilty or late, key=lambda c: (not c.stopped, c.phase.step, c.phase.since_s))
        if not order:
            return None
        others = {rank.number for rank in alive} - {culprit.rank for culprit in order}
        heard = [self._heard[number].phase for number in others]
        others_wait = bool(heard) and all(p is not None and waits(p) for p in heard)
        return Hang(tuple(order), now, others_wait=others_wait)

    def _hear(self, number: int, passed_s: float) -> None:
        heard, phase = self._heard[number], self._phases.read(number)
        if phase is None or (heard.phase is not None and phase.count == heard.phase.count):
            heard.silent_s += passed_s
            return
        heard.phase, heard.silent_s = phase, 0.0
        heard.first_step = heard.first_step or phase.step

    def _late(self, rank: RankProcess) -> Culprit | None:
        heard = self._heard[rank.number]
        if heard.phase is None or heard.silent_s <= self._limit_s(heard, rank):
            return None
        stopped = is_stopped(rank.process.pid)
        return Culprit(rank.number, heard.phase, heard.silent_s, stopped)

    def _limit_s(self, heard: _Heard, rank: RankProcess) -> float:
        assert heard.phase is not None
        if heard.phase.step > heard.first_step and heard.phase.name not in SLOW:
            return self._timeout_s
        first_s = FIRST_TIMES * self._timeout_s
        if heard.phase.name != UNLIMITED:
            return first_s
        # Tokenising may take hours; a process that is stopped does not get there ever.
        return first_s if heard.silent_s > first_s and is_stopped(rank.process.pid) else math.inf


def waits(phase: Phase) -> bool:
    """Whether a rank in this phase is held up by others."""
    return phase.waits or phase.name in WAITING


def is_stopped(pid: int) -> bool:
    """Whether the process was stopped by a signal or a debugger; False where nobody can tell."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def words_of(hang: Hang) -> str:
    """What a person should know, in a sentence."""
    first = hang.culprits[0]
    if not first.stopped and waits(first.phase):
        places = ", ".join(f"rank {c.rank} {c.phase.place}" for c in hang.culprits)
        return f"all ranks wait for each other, for {first.silent_s:.0f} s: {places}"
    text = f"rank {first.rank} has made no progress for {first.silent_s:.0f} s {first.phase.place}"
    if first.phase.examples:
        text += f" with the examples {first.phase.examples}"
    if first.stopped:
        text += "; its process is stopped (by SIGSTOP, or by a debugger)"
    if hang.others_wait:
        text += "; the others wait for it"
    for other in hang.culprits[1:]:
        text += f"; rank {other.rank} stands still, too, {other.phase.place}"
    return text


def behind(phases: Phases, ranks: Sequence[RankProcess]) -> str:
    """After others lost patience with them: where ranks stood that waited for nobody, in words."""
    said = [(r.number, phases.read(r.number)) for r in ranks if r.exit_code != _LOST]
    places = [f"rank {number} was {p.place}" for number, p in said if p and not waits(p)]
    return f"; {', '.join(places)}" if places else ""


def look_into(
    found: Hang,
    phases: Path,
    ranks: Sequence[RankProcess],
    environ: Mapping[str, str],
    log: Path,
    began_unix_s: float,
) -> Hang:
    """Before all are ended: the stack of the culprit, appended to ``log``, and NCCL's records.

    ``environ``: the variables that the ranks have.
    """
    first = found.culprits[0]
    stack = "" if first.stopped else stack_of(phases, ranks[first.rank])
    if stack:
        with log.open("a", encoding="utf-8") as file:
            file.write(stack)
        stack = f"its Python stack, innermost call first (all threads: {log}):\n{innermost(stack)}"
    alive = [rank for rank in ranks if rank.exit_code is None]
    able = [rank.number for rank in alive if not is_stopped(rank.process.pid)]
    paths = dumps(environ, able, began_unix_s)
    if paths:
        names = ", ".join(map(str, paths))
        stack = f"{stack}\nNCCL's flight recorder wrote {names}; torchfrtrace reads them".strip()
    return replace(found, details=stack)


def stack_of(phases: Path, rank: RankProcess) -> str:
    """The Python stacks of a rank that can still tell, the innermost call of each thread first."""
    path = stack_path(phases, rank.number)
    if not path.exists():
        return ""
    rank.process.send_signal(STACK_SIGNAL)
    deadline = time.monotonic() + _STACK_S
    text, before = "", None
    while time.monotonic() < deadline and (not text or text != before):
        time.sleep(0.05)  # it is written in pieces
        text, before = path.read_text(encoding="utf-8", errors="replace"), text
    return text


def innermost(stack: str) -> str:
    """The main thread's part of a stack, cut to a few lines."""
    threads = [part.splitlines() for part in stack.split("\n\n")]
    main = threads[-1]  # the first thread that was started is written last
    return "\n".join(f"  {line.strip()}" for line in main[:_STACK_LINES] if line.strip())
