"""When a run starts anew after a failure, and when it stops: what ``restarts.jsonl`` counts.

One line for every start of the command, for every failure and for every end that was in order, each
with the time. Where the line of an end is missing, the launcher was killed, as by a scheduler that
will start the job again: the count of that start goes on, and its end counts as a failure, unless
there was a new checkpoint in between. After an end that was in order a new command counts from
none, so a person may simply try again; but a step that failed too often before gets one attempt
then, not three, until the run has come past it. So whoever starts a hopeless step over and over
ends each time after one attempt.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

from lightwork.cli.launching import LOGS
from lightwork.comm.supervisor import Answer
from lightwork.comm.verdict import Failure
from lightwork.errors import LaunchError
from lightwork.manifest import own_memory
from lightwork.report.timeline import checkpoint_steps
from lightwork.settings import run_id_of
from lightwork.telemetry.lines import RESTARTS, json_lines, open_lines

SAME_STEP = 3
"""So often may one step fail, by whatever death."""
_SHOWN_REASONS = 3
_REASON_CHARACTERS = 300


def newest_checkpoint(run: Path) -> str | None:
    """The name of the newest state that was written to its end; reading it verifies it."""
    on_disk = max(checkpoint_steps(run), default=-1)
    run_id = run_id_of(run)
    in_memory = max(checkpoint_steps(own_memory() / run_id), default=-1) if run_id else -1
    if in_memory > on_disk:
        return f"step-{in_memory:06d} in memory"
    return f"step-{on_disk:06d}" if on_disk >= 0 else None


class Restarts:
    """The failures of one run, over all its starts."""

    def __init__(self, run: Path, most: int) -> None:
        """``most``: new attempts that a start may have."""
        self._run = run
        self._most = most
        self._path = run / RESTARTS
        self._spent = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Around one start of the command, which is noted with its end.

        Raises LaunchError where killed launchers have used up the count.
        """
        newest = newest_checkpoint(self._run)
        self._spent = spent(json_lines(self._path), newest)
        self._note({"event": "start", "newest": newest})
        try:
            if self._spent > self._most > 0:
                raise LaunchError(self._killed_too_often())
            yield
        finally:
            self._note({"event": "end", "newest": newest_checkpoint(self._run)})

    def again(self, failure: Failure) -> Answer:
        """Whether a new attempt follows, and what to say."""
        self._spent += 1
        self._note(
            {
                "event": "failure",
                "attempt": failure.attempt,
                "step": failure.step,
                "rank": failure.rank,
                "reason": _short(failure.what),
                "examples": failure.examples,
            }
        )
        if not self._most:
            return Answer(False, f"launch.restarts is 0; the same command {self._going_on()}")
        same = failures_of(failure.step, json_lines(self._path))
        if len(same) >= SAME_STEP:
            return Answer(False, self._same_step(failure.step, same))
        if self._spent > self._most:
            return Answer(False, self._used_up())
        where = f"attempt {self._spent + 1} of at most {self._most + 1} {self._going_on()}"
        why = f"rank {failure.rank} failed" if failure.shown else _short(failure.what)
        return Answer(True, f"{why}; {where}")

    def _going_on(self) -> str:
        newest = newest_checkpoint(self._run)
        return f"goes on from {newest}" if newest else "begins again"

    def _same_step(self, step: int, same: Sequence[dict[str, Any]]) -> str:
        where = f"step {step}" if step else "what comes before the first step"
        reasons = list(dict.fromkeys(line["reason"] for line in same))[-_SHOWN_REASONS:]
        why = f" ({'; '.join(reasons)})" if len(reasons) > 1 else ""  # one has just been told
        examples = next((line["examples"] for line in reversed(same) if line["examples"]), "")
        of = f"; the examples at work were {examples}" if examples else ""
        look = "at these examples, " if examples else ""
        return (
            f"{where} has failed {len(same)} times{why}{of}. So there is no further attempt: look "
            f"{look}at the memory of the machine and at the logs in {self._run / LOGS}. After that "
            f"the same command {self._going_on()}, once."
        )

    def _used_up(self) -> str:
        return (
            f"this was attempt {self._spent}, and launch.restarts allows no more; {self._path} "
            f"lists the failures. Once the reason is mended, the same command {self._going_on()} "
            "and counts anew; launch.restarts=100 allows more."
        )

    def _killed_too_often(self) -> str:
        return (
            f"this run was killed with its launcher, or failed, {self._spent} times and has "
            f"written no checkpoint meanwhile; launch.restarts allows {self._most}. Usually memory "
            "ran out or a time limit is too short: look there, and let checkpoint.every_minutes be "
            f"less. The same command then counts anew; {self._path} lists what happened."
        )

    def _note(self, entry: dict[str, Any]) -> None:
        """Append a line, on the disk before this returns."""
        if not self._run.is_dir():
            return  # a mistake left no run
        line = json.dumps({"time_unix_s": time.time(), **entry}, ensure_ascii=False)
        with open_lines(self._path) as file:
            file.write((line + "\n").encode())
            os.fsync(file.fileno())


def spent(lines: Sequence[dict[str, Any]], newest: str | None) -> int:
    """How much of its count a start has used before it begins, beside the checkpoint ``newest``."""
    count, before, ended = 0, newest, True
    for line in [*lines, {"event": "start", "newest": newest}]:
        event = line.get("event")
        if event == "failure":
            count += 1
        elif event == "start":
            progress = line.get("newest") != before
            count = 0 if ended or progress else count + 1
            before = line.get("newest")
        ended = event == "end"
    return count


def failures_of(step: int, lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The failures at this step since the run last failed at a later one."""
    found: list[dict[str, Any]] = []
    for line in lines:
        if line.get("event") == "failure" and line["step"] > step:
            found = []
        elif line.get("event") == "failure" and line["step"] == step:
            found.append(line)
    return found


def _short(text: str) -> str:
    return shorten(text, _REASON_CHARACTERS, placeholder=" …")
