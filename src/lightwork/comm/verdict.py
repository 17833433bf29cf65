"""What became of the ranks, and whose fault it was."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightwork.comm.phases import Phase
from lightwork.comm.signals import ASKING
from lightwork.comm.told import Told, read_told
from lightwork.errors import LightworkError, PeerLostError

_ASKED = tuple(128 + number for number in ASKING)
"""What ranks end with that somebody sent a signal: by themselves, saved, or before they could."""
_TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_PEERS_PATIENCE_S = 3.0
"""How long a rank that only lost its peer waits for the rank that has the reason."""
_JOINT_PATIENCE_S = 2.0
"""How long an error of all ranks waits for rank 0 to show it."""


@dataclass
class RankProcess:
    """One rank as its supervisor sees it."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path | None
    log_start: int
    told_path: Path
    exit_code: int | None = None
    ended_s: float = 0.0
    asked: bool = False
    """Whether it was asked to end before it did."""

    def look(self, now: float) -> None:
        if self.exit_code is None:
            self.exit_code = self.process.poll()
            self.ended_s = now

    def send(self, signum: int) -> None:
        if self.exit_code is None:
            self.asked = True
            self.process.send_signal(signum)

    def kill(self) -> None:
        """The rank, and whatever it started in its session."""
        self.asked = self.asked or self.exit_code is None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def failed(self) -> bool:
        return bool(self.exit_code) and not self.asked

    @property
    def told(self) -> Told | None:
        return read_told(self.told_path)

    def patience_s(self) -> float:
        """How long the others may go on after this failure, because they may know better."""
        told = self.told
        if told is not None and told.joint:
            return _JOINT_PATIENCE_S
        return _PEERS_PATIENCE_S if self.exit_code == PeerLostError.exit_code else 0.0

    @property
    def shell_code(self) -> int:
        """The exit code as a shell has it: 128 + signal for one that a signal ended."""
        code = self.exit_code or 0
        return code if code >= 0 else 128 - code


def cause_of(ranks: list[RankProcess]) -> RankProcess | None:
    """The failure behind all the others, as far as can be known."""

    def likelihood(rank: RankProcess) -> tuple[bool, float, bool]:
        code = rank.exit_code or 0
        return code == PeerLostError.exit_code, rank.ended_s, code > 0  # no peer sends a signal

    return min((rank for rank in ranks if rank.failed), key=likelihood, default=None)


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed, in short."""

    attempt: int
    """From 0, of this start."""
    rank: int
    """The one whose failure is behind all the others."""
    what: str
    """In a line, naming the rank."""
    step: int
    """The update it was at; 0 before the first one of the attempt."""
    examples: str
    """Ids of the examples it was working on, in words; may be empty."""
    repeats: bool
    """Whether a new attempt would fail alike, so that somebody has to mend something."""
    code: int
    """The exit code for the whole."""
    seen_s: float
    """When it was noticed, on the ``time.monotonic`` clock."""
    shown: bool = False
    """Whether the person has read it already, in a rank's own words."""


def failure_of(
    attempt: int, cause: RankProcess, ranks: Sequence[RankProcess], phase: Phase | None
) -> Failure:
    """``phase``: what the ``cause`` said last, if anything."""
    told = cause.told
    if told is not None:
        what = f"rank {cause.number}: {' '.join(told.message.split())}"
    else:
        place = f" {phase.place}" if phase is not None else ""
        what = f"rank {cause.number} {_ending(cause)}{place}"
    return Failure(
        attempt=attempt,
        rank=cause.number,
        what=what,
        step=phase.step if phase is not None else 0,
        examples=phase.examples if phase is not None else "",
        repeats=_repeats(cause, told),
        code=cause.shell_code,
        seen_s=cause.ended_s,
        shown=_shown(told, ranks),
    )


def _repeats(cause: RankProcess, told: Told | None) -> bool:
    """A mistake that somebody must mend, or a rank that left because it was asked to."""
    if told is not None:
        return told.repeats
    return cause.exit_code == LightworkError.exit_code or cause.shell_code in _ASKED


def report(cause: RankProcess, ranks: list[RankProcess]) -> None:
    """Say once, on standard error, whose fault the end was and why."""
    told = cause.told
    early = [rank for rank in ranks if rank.exit_code == 0 and rank.ended_s <= cause.ended_s]
    if early and cause.exit_code == PeerLostError.exit_code:
        say(
            f"rank {early[0].number} of {len(ranks)} ended, with exit code 0, while others were "
            "still at work; all ranks were stopped."
        )
        return
    if told is not None:
        if not _shown(told, ranks):
            say(f"rank {cause.number}: {told.message}")
        return
    if cause.exit_code in _ASKED:
        return  # it has said so itself
    say(f"rank {cause.number} of {len(ranks)} {_ending(cause)}; all ranks were stopped.")
    lines = _tail(cause) if cause.shell_code not in _ASKED else []
    if lines:
        say(f"The last lines of {cause.log}:")
        say("\n".join(f"  {line}" for line in lines))


def _shown(told: Told | None, ranks: Sequence[RankProcess]) -> bool:
    """Whether a rank has shown this error of all ranks."""
    others = [rank.told for rank in ranks]
    return told is not None and told.joint and any(other and other.shown for other in others)


def _ending(rank: RankProcess) -> str:
    code = rank.exit_code or 0
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = " (often because memory ran out)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"


def _tail(rank: RankProcess) -> list[str]:
    """The last lines that this run wrote to the rank's log."""
    if rank.log is None:
        return []
    with rank.log.open("rb") as log:
        end = log.seek(0, os.SEEK_END)
        log.seek(max(rank.log_start, end - _TAIL_BYTES))
        return log.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]


def say(text: str) -> None:
    """To the person, on standard error; nothing says nothing."""
    sys.stderr.write(text and text + "\n")
    sys.stderr.flush()
