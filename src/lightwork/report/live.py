"""The verdict while a run trains: one line when what holds it up has changed and stays so.

A thread of rank 0 reads the newest lines that all ranks have written, so it sends no message, and
steps do nothing for it. It looks as seldom as it takes to cost a step :data:`COST_S` at most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lightwork.errors import RunError
from lightwork.report.explaining import sentence
from lightwork.report.finding import Finding
from lightwork.report.findings import findings
from lightwork.report.steps import Choices, choices_of, read_steps

log = logging.getLogger("lightwork")

EVERY_S = 15.0
"""Between two looks, at least."""
HELD = 2
"""Looks in a row, at different steps, that must agree before a change is said."""
COST_S = 40e-6
"""Of this thread's own work for each step of the run, in the mean."""
TAIL_BYTES = 48 << 10
"""Read of each rank: some forty steps."""

Key = tuple[str, int | None]
CALM: Key = ("compute", None)
Name = Callable[[Finding], Finding]
"""Looks up the examples behind a finding."""


def _unnamed(finding: Finding) -> Finding:
    return finding


class Live:
    """What has been said of a run, and what is about to be."""

    def __init__(self, run: Path, attempt: int, name: Name = _unnamed) -> None:
        """``attempt``: of which start; until it has recorded steps, others may stand there."""
        self._run = run
        self._attempt = attempt
        self._name = name
        self._choices: Choices | None = None
        self.last_step = 0
        self._said = CALM
        self._held: list[Key] = []
        self._warned: set[Key | int] = set()

    def look(self) -> None:
        """Read the newest steps, and log what has changed; nothing where there are no new ones."""
        try:
            steps = read_steps(self._run, TAIL_BYTES)
        except RunError:
            return  # too few of this start
        if steps.attempt != self._attempt or int(steps.numbers[-1]) <= self.last_step:
            return
        self._choices = self._choices or choices_of(self._run)
        self.last_step = int(steps.numbers[-1])
        found = findings(replace(steps, choices=self._choices))
        # One evaluation fills so short a time and comes seldom; all steps tell what it costs.
        found = [finding for finding in found if finding.kind != "duties"]
        self._tell(next((finding for finding in found if not finding.warns), None))
        for finding in found:
            if finding.warns:
                self._warn(finding)

    def _tell(self, dearest: Finding | None) -> None:
        """Say the dearest cause when it has been the same for a while, and was another before."""
        key: Key = (dearest.kind, dearest.rank) if dearest else CALM
        self._held = [*self._held, key][-HELD:]
        if key == self._said or self._held != [key] * HELD:
            return
        self._said = key
        if dearest is None or key == CALM:
            log.info("step %d: nothing holds the run up any more", self.last_step)
        else:
            log.info("step %d: %s; do: %s", self.last_step, sentence(dearest), dearest.todo)

    def _warn(self, finding: Finding) -> None:
        """Say a warning once; of single steps, each once."""
        keys = set(finding.at_steps) if finding.kind == "spike" else {(finding.kind, finding.rank)}
        if keys <= self._warned:
            return
        self._warned |= keys
        named = self._name(finding)
        log.warning("step %d: %s; do: %s", self.last_step, sentence(named), named.todo)


@contextmanager
def watching(run: Path, attempt: int, name: Name = _unnamed) -> Iterator[None]:
    """Look at start ``attempt`` of ``run`` now and then, in a thread that ends with the context."""
    ended = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(Live(run, attempt, name), ended), name="lightwork-verdict", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(live: Live, ended: threading.Event) -> None:
    pause_s = EVERY_S
    while not ended.wait(pause_s):
        step, spent_s, began_s = live.last_step, time.thread_time(), time.monotonic()
        try:
            live.look()
        except Exception:  # training goes on without a verdict, and says why
            log.warning("the verdict on this run could not be made", exc_info=True)
            return
        done = live.last_step - step if step else 0  # unknown, where there was no look before
        pause_s = pause(time.thread_time() - spent_s, done, pause_s)
        pause_s = max(0.0, pause_s - (time.monotonic() - began_s))


def pause(spent_s: float, steps: int, since_s: float) -> float:
    """Seconds until the next look, when this one took ``spent_s`` and the run did ``steps`` steps
    in ``since_s`` seconds."""
    if steps <= 0:
        return EVERY_S
    return max(EVERY_S, spent_s / COST_S * since_s / steps)
