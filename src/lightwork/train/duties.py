"""What is done between steps, by all ranks together: checks, checkpoints, evaluations."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from lightwork.comm.group import Group
from lightwork.comm.phases import enter
from lightwork.comm.signals import Stopped, name_of
from lightwork.errors import CheckpointError
from lightwork.train.calendar import Calendar
from lightwork.train.checkpoint import Checkpoints, Part
from lightwork.train.control import NO_WISHES, Wishes, lost_at
from lightwork.train.evaluate import Evaluation
from lightwork.train.scores import Best, Scores
from lightwork.train.snapshots import Snapshots
from lightwork.train.writer import Writer

log = logging.getLogger("lightwork")

Sums = Mapping[str, int]
"""By name, the sum over all bits of each tensor that ranks hold; empty where there is one rank."""


@dataclass(frozen=True)
class State:
    """What all ranks hold alike between two steps."""

    parts: Callable[[int, Sums, Best | None], Iterable[Part]]
    """What the checkpoint of a step holds, copied when this is called; the copies stay until the
    next call, and another thread goes through the parts."""
    check: Callable[[int], Sums]
    """Raises StepError on all ranks together where they do not hold the same after a step."""
    snapshots: Snapshots | None = None
    """Where it is kept in memory between two checkpoints; None: nowhere."""


class Duties:
    """Checks, saves and evaluates; every rank calls the same methods after the same steps.

    Checkpoints are written beside training. That one could not be written, all ranks hear after
    the next step, with the next evaluation or at the end, whatever comes first. Used as a context:
    leaving it waits for the checkpoint that was begun.
    """

    def __init__(
        self,
        group: Group,
        calendar: Calendar,
        checkpoints: Checkpoints,
        state: State,
        evaluate: Callable[[], Evaluation] | None,
        scores: Scores,
    ) -> None:
        """``evaluate`` None: there is nothing to score."""
        self._group = group
        self._calendar = calendar
        self._checkpoints = checkpoints
        self._state = state
        self._evaluate = evaluate
        self._scores = scores
        self._writer = Writer(partial(checkpoints.save, keep=calendar.keep))
        self.time_is_up = False
        """Whether training ended for that reason, in the middle."""
        self._saved_step = -1
        self._saved_s = time.monotonic()

    def __enter__(self) -> Duties:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._settle()
            self._forget_snapshot()
            return
        if self._writer.writing:
            log.info("waiting for the checkpoint that is being written")
        problem = self._writer.wait()  # other ranks are not told: they may be gone
        if problem is not None:
            log.error("%s", problem)
        elif issubclass(kind, Stopped):
            self._forget_snapshot()

    def _forget_snapshot(self) -> None:
        """There is a checkpoint that is as new."""
        if self._state.snapshots is not None and self._group.rank == 0:
            self._state.snapshots.remove()

    def wishes(self) -> Wishes:
        """What this rank asks for; there is one clock for all, that of rank 0."""
        every_s, ends_s = self._calendar.save_every_s, self._calendar.ends_s
        now, keeps_time = time.monotonic(), self._group.rank == 0
        due = every_s is not None and now - self._saved_s >= every_s
        return Wishes(
            save=keeps_time and (due or self._writer.failed),
            stop_signal=self._calendar.stop_signal(),
            time_up=keeps_time and ends_s is not None and now >= ends_s,
        )

    def owed(self, step: int) -> bool:
        """After a start at ``step``: an evaluation that a kill prevented is made up for.

        Returns whether training goes on.
        """
        if step == 0:
            return True
        self._saved_step = step  # it was just loaded
        if self._evaluate is None:
            return True
        done = self._group.gather_json(step in self._scores.until(step))[0]
        if not self._calendar.evaluate_after(step):
            return self._goes_on(step)
        if not done:
            self._score(step)
        else:
            self._settle(self._best_now(step))  # a kill may have come before it was pointed to
        return self._goes_on(step)

    def after(self, step: int, agreed: Wishes) -> bool:
        """What is due after ``step``, and what all ranks agreed on besides.

        Returns whether training goes on. Raises Stopped where a signal asked for the end.
        """
        with lost_at(self._group.rank, step, "checks, saves and evaluations"):
            return self._after(step, agreed)

    def _after(self, step: int, agreed: Wishes) -> bool:
        last = step == self._calendar.last_step
        score = self._evaluate is not None and self._calendar.evaluate_after(step)
        save = score or self._calendar.save_after(step) or agreed != NO_WISHES
        sums: Sums = {}
        if save or self._calendar.check_after(step):
            enter("check")
            sums = self._state.check(step)
        if save:
            enter("save")
            self._save(step, sums)  # before evaluating, and written beside it
        elif self._calendar.snapshot_after(step):
            self._snapshot(step, sums)
        if agreed.stop_signal:
            self._settle()
            log.info("stopped by %s after step %d, saved", name_of(agreed.stop_signal), step)
            raise Stopped(agreed.stop_signal)
        if agreed.time_up and not last:
            self._settle()
            self.time_is_up = True
            return False
        if score:
            self._score(step)
            return self._goes_on(step)
        return True

    def _goes_on(self, step: int) -> bool:
        """Whether the score still rises; rank 0 knows the scores and tells the others."""
        patience = self._calendar.patience
        if patience is None:
            return True
        waited = self._group.gather_json(self._scores.since_best(step))[0]
        if waited >= patience and self._group.rank == 0 and step < self._calendar.last_step:
            log.info(
                "stopped after step %d: the score has not risen in %d evaluations (train.patience)",
                step,
                waited,
            )
        return bool(waited < patience)

    def _save(self, step: int, sums: Sums) -> None:
        """Begin the checkpoint of ``step``, when the one before is written."""
        self._settle()
        if step == self._saved_step:
            return
        if self._group.rank == 0:
            self._writer.begin(step, self._state.parts(step, sums, self._scores.best(step)))
        self._saved_step, self._saved_s = step, time.monotonic()

    def _snapshot(self, step: int, sums: Sums) -> None:
        """Begin the snapshot of ``step``; it is left out while something else is being written."""
        snapshots = self._state.snapshots
        if self._group.rank or snapshots is None or self._writer.writing or self._writer.failed:
            return
        self._writer.wait()
        parts = self._state.parts(step, sums, self._scores.best(step))
        self._writer.begin(step, parts, snapshots.save)

    def _settle(self, best_step: int | None = None) -> None:
        """Wait until nothing is being written, and let ``best`` point to what is; on rank 0.

        Raises CheckpointError on all ranks together where any of it went wrong.
        """
        problem = self._writer.wait()
        if problem is None and best_step is not None:
            try:
                self._checkpoints.point_best(best_step)
                self._checkpoints.rotate(best_step, self._calendar.keep)
            except CheckpointError as error:
                problem = str(error)
        problem = self._group.gather_json(problem)[0]
        if problem is not None:
            raise CheckpointError(problem)

    def _best_now(self, step: int) -> int | None:
        """``step`` if its evaluation is the best so far, as rank 0 knows; None otherwise."""
        found = self._scores.best(step) if self._group.rank == 0 else None
        return step if found is not None and found.step == step else None

    def _score(self, step: int) -> None:
        assert self._evaluate is not None
        enter("evaluate")
        started_s = time.monotonic()
        result = self._evaluate()
        seconds = time.monotonic() - started_s
        self._settle()  # what is scored is on the disk
        if self._group.rank == 0:
            self._scores.add(step, result.scores)
        best_step = self._best_now(step)
        self._settle(best_step)
        if self._group.rank == 0:
            mark = "  (best so far)" if best_step is not None else ""
            log.info("evaluation at step %d: %s  in %.1f s%s", step, result, seconds, mark)
            if result.remark:
                log.info("  %s", result.remark)
