"""What a dead rank costs, part by part: ``python -m benchmarks.restarting``.

A small run is started as ``lightwork train`` starts it. In the middle of a step one rank is killed,
as often as ``--kills`` says, and each time the run goes on. The parts are seconds since the kill:
until it was *seen*, until the *others ended*, until all *processes* of the new attempt were *up*
(Python and our own imports, before torch), the *group open*, the *model loaded* and the *first
step* finished. The cold start is the same for the first attempt, from the moment at which the
command was given; data was prepared before. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.launching import MODEL, environment, write_settings
from benchmarks.machine import machine, versions
from lightwork.assembly.preparing import prepare
from lightwork.cli.launching import launch_of
from lightwork.comm.phases import PATH, Phase, Phases
from lightwork.comm.supervisor import Answer, supervise
from lightwork.comm.verdict import Failure
from lightwork.settings import load_settings, open_run

SEEN_S = 1.0
"""Until a death is seen."""
MORE_S = 2.0
"""Beyond a cold start, until the first step after a death is finished."""
PARTS = ("seen", "others ended", "processes up", "group open", "model loaded", "first step")
_STEPS_BETWEEN = 5
_LIMIT_S = 300.0
VALUES: dict[str, Any] = {
    "model": {"source": MODEL},
    "data": {"max_length": 128, "stride": 32, "limit": 400},
    "train": {"batch_size": 4, "epochs": 1000, "log_every_steps": 1_000_000},
    "launch": {"device": "cpu", "threads": 1},
    "checkpoint": {"every_minutes": None, "every_steps": 3},
}


@dataclass
class Times:
    """Moments of one attempt, on the monotonic clock, by the name of the part that ends there."""

    began_s: float
    """The kill before it, or the command."""
    at_s: dict[str, float] = field(default_factory=dict)

    def seconds(self, part: str) -> float:
        """Since this began."""
        return self.at_s[part] - self.began_s


class Course:
    """Follows the ranks of a supervisor in this process, kills one now and then, and ends all."""

    def __init__(self, ranks: int, kills: int) -> None:
        self.attempts = [Times(time.monotonic())]
        self.problem: str | None = None
        self._ranks = ranks
        self._kills = kills

    def again(self, failure: Failure) -> Answer:
        """The supervisor tells that all have ended."""
        now = time.monotonic()
        self.attempts[-1].at_s.update({"seen": failure.seen_s, "others ended": now})
        return Answer(True, "")

    def follow(self) -> None:
        """Until the last attempt has done a step; run in a thread beside ``supervise``."""
        try:
            for number in range(self._kills + 1):
                victim = self._attempt(number)
                if number == self._kills:
                    break
                self.attempts.append(Times(time.monotonic()))
                victim.kill()
        except TimeoutError as error:
            self.problem = str(error)
        os.kill(os.getpid(), signal.SIGTERM)

    def _attempt(self, number: int) -> psutil.Process:
        """Note when its ranks got where, let it do some steps; returns the rank to kill."""
        processes = self._processes(number)
        phases = Phases(Path(processes[0].environ()[PATH]))
        times = self.attempts[number].at_s
        first = [0] * self._ranks
        deadline = time.monotonic() + _LIMIT_S
        while True:
            said = [phases.read(rank) for rank in range(self._ranks)]
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"attempt {number} did no step within {_LIMIT_S:g} s")
            for rank, phase in enumerate(said):
                first[rank] = first[rank] or (phase.step if phase else 0)
            pairs = list(zip(said, first, strict=True))
            for part in PARTS[2:][: min(reached(*pair) for pair in pairs)]:
                times.setdefault(part, now)
            if all(phase and phase.step >= f + _STEPS_BETWEEN for phase, f in pairs):
                return processes[-1]
            time.sleep(0.002)

    def _processes(self, number: int) -> list[psutil.Process]:
        """Its ranks, as soon as all are there."""
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            found = [p for p in psutil.Process().children() if _attempt_of(p) == str(number)]
            if len(found) == self._ranks:
                return sorted(found, key=lambda process: int(process.environ()["RANK"]))
            time.sleep(0.005)
        raise TimeoutError(f"attempt {number} did not start within {_LIMIT_S:g} s")


def reached(phase: Phase | None, first_step: int) -> int:
    """How many of the last four parts this rank has come past."""
    if phase is None:
        return 0
    if not phase.step:
        return 1 if phase.name in ("start", "prepare", "meeting") else 2
    return 3 if phase.step == first_step else 4


def _attempt_of(process: psutil.Process) -> str | None:
    """From 0, as text; None for one that ended or is about to become a rank."""
    try:
        return process.environ().get("LIGHTWORK_ATTEMPT")
    except psutil.Error:
        return None


def measure(ranks: int, kills: int, values: dict[str, Any]) -> list[Times]:
    """The cold start, and after it every attempt that followed a kill."""
    with TemporaryDirectory(prefix="restarting-") as folder:
        run = Path(folder) / "run"
        settings = load_settings(write_settings(Path(folder), values, None))
        prepare(settings)
        record = open_run(run, settings)
        course = Course(ranks, kills)
        asked = launch_of(["train", str(run)], ranks, run, record.run_id, 5.0, environment())
        follower = threading.Thread(target=course.follow)
        follower.start()
        supervise(replace(asked, again=course.again, hang_timeout_s=_LIMIT_S))
        follower.join()
    if course.problem is not None:
        sys.exit(f"restarting: {course.problem}; what the ranks said is above")
    return course.attempts


def row(name: str, times: Times) -> str:
    """Of one attempt; a cold start has nothing to see or to end."""
    cells = [f"{times.seconds(part):.2f}" if part in times.at_s else "" for part in PARTS]
    return f"| {' | '.join([name, *cells])} |"


def verdicts(attempts: Sequence[Times]) -> list[str]:
    """Each goal, what came of it and whether that is met."""
    cold, *others = attempts
    seen_s = max(times.seconds("seen") for times in others)
    more_s = max(times.seconds("first step") for times in others) - cold.seconds("first step")
    return [
        f"a death is seen: after {seen_s:.2f} s at most; goal {SEEN_S:g} s: "
        f"{'met' if seen_s <= SEEN_S else 'missed'}",
        f"first step after a death: {more_s:+.2f} s beside a cold start at most; goal "
        f"{MORE_S:+g} s: {'met' if more_s <= MORE_S else 'missed'}",
    ]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.restarting", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--kills", type=int, default=3)
    made.add_argument("--model", default=MODEL, help="as model.source")
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = parser().parse_args(argv)
    values = {**VALUES, "model": {"source": arguments.model}}
    print(machine(), versions())
    attempts = measure(arguments.ranks, arguments.kills, values)
    print(f"| seconds until | {' | '.join(PARTS)} |\n| :-- |{' --: |' * len(PARTS)}")
    print(row("cold start", attempts[0]))
    for number, times in enumerate(attempts[1:], start=1):
        print(row(f"kill {number}", times))
    print("\n".join(verdicts(attempts)))
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
