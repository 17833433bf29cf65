"""Starts this machine's ranks, sees the first death, ends the others, says what happened.

The store where ranks meet lives here, on a loopback socket that listens before the first rank
starts; torch, which the store needs, is imported while the ranks import theirs. Each rank leads
its own session, so a terminal's Ctrl-C reaches only the supervisor, and whatever a rank started
can be ended with it. Ranks end themselves if the supervisor vanishes
(:func:`lightwork.comm.parent.die_with_parent`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

from lightwork.comm.listener import LOOPBACK, listen, port_of
from lightwork.comm.verdict import RankProcess, cause_of, report
from lightwork.errors import LaunchError

_LOOK_EVERY_S = 0.05


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
    """How long ranks that were asked to end may take before they are killed."""
    started_s: float = field(default_factory=time.monotonic)
    """When a person started this, on the monotonic clock; attempts after it do not count anew."""


@dataclass
class _Stop:
    """Signals that the supervisor received."""

    signals: list[int] = field(default_factory=list)

    def note(self, signum: int, _frame: FrameType | None) -> None:
        self.signals.append(signum)


def supervise(launch: Launch) -> int:
    """Run all ranks to their end; returns the exit code of the whole.

    0 if every rank returned 0. Otherwise that of the rank that failed first, 128 + signal if a
    signal ended it; a rank that only lost its peer never counts where another one's own failure is
    known. SIGINT and SIGTERM are passed on to all ranks and give 130 and 143; a second one kills
    them at once.

    Raises:
        LaunchError: the command cannot be started.
    """
    store = _StoreHost(listen())
    ranks: list[RankProcess] = []
    with tempfile.TemporaryDirectory(prefix="lightwork-") as folder, _catch_signals() as stop:
        try:
            for number in range(launch.ranks):
                ranks.append(_start(launch, number, store.port, Path(folder)))
            store.start()
            _watch(ranks, launch.grace_s, stop)
        finally:
            for rank in ranks:
                rank.kill()
            store.close()
        cause = cause_of(ranks)
        if stop.signals:
            return 128 + stop.signals[0]
        if cause is None:
            return 0
        report(cause, ranks)
        return cause.shell_code


class _StoreHost:
    """The store, created in a thread so that importing torch delays nothing."""

    def __init__(self, listener: int) -> None:
        self.port = port_of(listener)
        self._listener = listener
        self._kept: list[object] = []
        self._thread = threading.Thread(target=self._host, name="store")

    def start(self) -> None:
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


def _start(launch: Launch, number: int, port: int, folder: Path) -> RankProcess:
    told = folder / f"rank{number}.told"
    environment = {
        "PYTHONUNBUFFERED": "1",  # or a killed rank's last lines never reach its log
        **launch.environment,
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(launch.ranks),
        "LOCAL_WORLD_SIZE": str(launch.ranks),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "LIGHTWORK_RUN_ID": launch.run_id,
        "LIGHTWORK_ATTEMPT": "0",
        "LIGHTWORK_PARENT_PID": str(os.getpid()),
        "LIGHTWORK_STARTED_S": str(launch.started_s),
        "LIGHTWORK_TOLD": str(told),
    }
    log = launch.log_dir / f"rank{number}.log" if number else None
    with contextlib.ExitStack() as files:
        output: IO[bytes] | None = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            output = files.enter_context(log.open("ab"))
        log_start = output.tell() if output is not None else 0
        try:
            process = subprocess.Popen(
                launch.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"cannot start {launch.command[0]}: {error}") from error
    return RankProcess(number, process, log, log_start, told)


def _watch(ranks: list[RankProcess], grace_s: float, stop: _Stop) -> None:
    """Until every rank has ended. Ends the others after the first failure, or when asked to."""
    kill_at_s: float | None = None
    while any(rank.exit_code is None for rank in ranks):
        time.sleep(_LOOK_EVERY_S)
        now = time.monotonic()
        for rank in ranks:
            rank.look(now)
        wanted = _wanted_signal(ranks, stop, now)
        if wanted is not None and kill_at_s is None:
            kill_at_s = now + grace_s
            for rank in ranks:
                rank.send(wanted)
        if len(stop.signals) > 1 or (kill_at_s is not None and now >= kill_at_s):
            for rank in ranks:
                rank.kill()


def _wanted_signal(ranks: list[RankProcess], stop: _Stop, now: float) -> int | None:
    if stop.signals:
        return stop.signals[0]
    if any(rank.failed and now >= rank.ended_s + rank.patience_s() for rank in ranks):
        return signal.SIGTERM
    return None


@contextlib.contextmanager
def _catch_signals() -> Iterator[_Stop]:
    stop = _Stop()
    before = {
        number: signal.signal(number, stop.note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
