"""One attempt: all ranks of this machine, from their start until the last of them has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, NamedTuple

from lightwork.comm import flight, hang
from lightwork.comm.listener import LOOPBACK
from lightwork.comm.phases import PATH, Phases
from lightwork.comm.signals import INSIST_AFTER_S
from lightwork.comm.verdict import Failure, RankProcess, cause_of, failure_of, report, say
from lightwork.errors import LaunchError, PeerLostError

HANGS = 124
"""The exit code where ranks were ended because one made no progress, as that of ``timeout``."""
_LOOK_EVERY_S = 0.05
_FAILURE_GRACE_S = 5.0
"""The most that the others get after a failure; there is not much they can still do."""
_AGAIN_GRACE_S = 0.5
"""The same where a new attempt waits for their end."""


class Answer(NamedTuple):
    """What becomes of a run after a failure."""

    goes_on: bool
    words: str


@dataclass(frozen=True)
class Launch:
    """What to start on this machine."""

    command: tuple[str, ...]
    ranks: int
    run_id: str
    log_dir: Path
    """Ranks other than 0 append what they print to ``rank<N>.log`` here."""
    environment: Mapping[str, str]
    """The whole environment of the ranks; the launcher's variables are added."""
    grace_s: float
    """How long ranks that were asked to end by a signal may take before they are killed."""
    again: Callable[[Failure], Answer] | None = None
    """Decides whether a new attempt follows a failure that need not repeat itself; None: never."""
    hang_timeout_s: float | None = None
    """Without progress for so long, a rank hangs; None: nobody looks."""
    started_s: float = field(default_factory=time.monotonic)
    """When a person started this, on the monotonic clock; attempts after it do not count anew."""


@dataclass
class Stop:
    """Signals that the supervisor received, and when, on the monotonic clock."""

    signals: list[tuple[int, float]] = field(default_factory=list)

    def note(self, signum: int, _frame: object) -> None:
        """A signal handler."""
        self.signals.append((signum, time.monotonic()))

    @property
    def first(self) -> int | None:
        """The signal that is passed on."""
        return self.signals[0][0] if self.signals else None

    @property
    def insists(self) -> bool:
        """Whether another one came later; a doubled Ctrl-C is one."""
        return any(at_s - self.signals[0][1] >= INSIST_AFTER_S for _, at_s in self.signals)


class Attempt:
    """The processes of one attempt, which :meth:`close` leaves nothing of."""

    def __init__(self, launch: Launch, number: int, port: int, folder: Path) -> None:
        """``port``: of the store where ranks meet. ``folder``: for what is said in this attempt."""
        folder.mkdir()
        self._launch = launch
        self._number = number
        self._port = port
        self._folder = folder
        self._environ = flight.recording(launch.environment, launch.log_dir, folder)
        self._phases = Phases.made(folder / "phases", launch.ranks)
        self._began_unix_s = time.time()
        self._ranks: list[RankProcess] = []
        self._hang: hang.Hang | None = None

    def start(self) -> None:
        """Start all ranks; LaunchError where the command cannot be started."""
        for number in range(self._launch.ranks):
            self._ranks.append(self._started(number))

    def watch(self, stop: Stop) -> None:
        """Until every rank has ended. Ends the others after a failure, or when asked to."""
        kill_at_s: float | None = None
        timeout_s = self._launch.hang_timeout_s
        watch = timeout_s and hang.Watch(self._phases, self._ranks, timeout_s)
        while any(rank.exit_code is None for rank in self._ranks):
            time.sleep(_LOOK_EVERY_S)
            now = time.monotonic()
            for rank in self._ranks:
                rank.look(now)
            wanted = self._wanted_signal(stop, now)
            if wanted is not None and kill_at_s is None:
                kill_at_s = now + self._grace_s(stop)
                self._send(wanted)
            if watch and kill_at_s is None and (found := watch.look(now)) is not None:
                self._hang, kill_at_s = self._looked_into(found), now
            if stop.insists or (kill_at_s is not None and now >= kill_at_s):
                self._say_lost(stop)
                self.close()

    def close(self) -> None:
        """End whatever is left."""
        for rank in self._ranks:
            rank.kill()

    def failure(self) -> Failure | None:
        """What went wrong, once all have ended; None where nothing did."""
        if self._hang is not None:
            first = self._hang.culprits[0]
            return Failure(
                attempt=self._number,
                rank=first.rank,
                what=hang.words_of(self._hang),
                step=first.phase.step,
                examples=first.phase.examples,
                repeats=False,
                code=HANGS,
                seen_s=self._hang.seen_s,
            )
        cause = cause_of(self._ranks)
        if cause is None:
            return None
        phase = self._phases.read(cause.number)
        failure = failure_of(self._number, cause, self._ranks, phase)
        if cause.exit_code != PeerLostError.exit_code:
            return failure
        stood = hang.behind(self._phases, self._ranks)
        return replace(failure, what=f"rank {cause.number} lost another rank{stood}")

    @property
    def details(self) -> str:
        """What else is known of a rank that hung, in lines."""
        return self._hang.details if self._hang is not None else ""

    def report(self) -> None:
        """Say once, on standard error, what became of the ranks."""
        cause = cause_of(self._ranks)
        if self._hang is not None:
            say(hang.words_of(self._hang))
            say(self.details)
        elif cause is not None:
            report(cause, self._ranks)

    @property
    def finished(self) -> bool:
        """Whether every rank came to its end."""
        return all(rank.exit_code == 0 for rank in self._ranks)

    def _say_lost(self, stop: Stop) -> None:
        """Ranks that were to save and leave did not have the time."""
        if stop.first is not None and any(rank.exit_code is None for rank in self._ranks):
            why = "another signal came" if stop.insists else "launch.grace_s was over"
            say(f"{why}, so the ranks were killed before they had saved and left")

    def _grace_s(self, stop: Stop) -> float:
        if stop.signals:
            return self._launch.grace_s
        most_s = _FAILURE_GRACE_S if self._launch.again is None else _AGAIN_GRACE_S
        return min(self._launch.grace_s, most_s)

    def _wanted_signal(self, stop: Stop, now: float) -> int | None:
        if stop.first is not None:
            return stop.first
        if any(rank.failed and now >= rank.ended_s + rank.patience_s() for rank in self._ranks):
            return signal.SIGTERM
        return None

    def _looked_into(self, found: hang.Hang) -> hang.Hang:
        log = self._launch.log_dir / f"rank{found.culprits[0].rank}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        since = self._began_unix_s
        return hang.look_into(found, self._phases.path, self._ranks, self._environ, log, since)

    def _send(self, signum: int) -> None:
        for rank in self._ranks:
            rank.send(signum)

    def _started(self, number: int) -> RankProcess:
        told = self._folder / f"rank{number}.told"
        log = self._launch.log_dir / f"rank{number}.log" if number else None
        with contextlib.ExitStack() as files:
            output: IO[bytes] | None = None
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                output = files.enter_context(log.open("ab"))
            log_start = output.tell() if output is not None else 0
            command = self._launch.command
            try:
                process = subprocess.Popen(
                    command,
                    env={**self._environment(number), "LIGHTWORK_TOLD": str(told)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(f"cannot start {command[0]}: {error}") from error
        return RankProcess(number, process, log, log_start, told)

    def _environment(self, number: int) -> dict[str, str]:
        ranks = str(self._launch.ranks)
        return {
            "PYTHONUNBUFFERED": "1",  # or a killed rank's last lines never reach its log
            **self._environ,
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": str(self._port),
            "LIGHTWORK_RUN_ID": self._launch.run_id,
            "LIGHTWORK_ATTEMPT": str(self._number),
            "LIGHTWORK_PARENT_PID": str(os.getpid()),
            "LIGHTWORK_STARTED_S": str(self._launch.started_s),
            PATH: str(self._phases.path),
        }
