"""One step: forward and backward of this rank's shares, one sum, one decision, one update."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import Enum, auto
from typing import Any, Protocol

from lightwork.comm.group import Group
from lightwork.comm.phases import enter
from lightwork.data.loader import Loader, Work
from lightwork.errors import NotFiniteError
from lightwork.sync.contract import GradientSync, Settled, SyncResult
from lightwork.telemetry.records import FAR
from lightwork.telemetry.timing import StepClock
from lightwork.train.control import Agreement, Control, Problem, Wishes, lost_at
from lightwork.train.gradients import Gradients, Trial
from lightwork.train.model import Model

log = logging.getLogger("lightwork")


class Update(Protocol):
    """What turns the summed gradients into new weights: local now, elsewhere on servers."""

    def measure(self, scale: float) -> float:
        """Divide the summed gradients by ``scale``; returns their norm."""
        ...

    def apply(self, learning_rate: float, norm: float) -> None:
        """Clip by the norm that all agreed on, and update."""
        ...


def _unwritten(entry: dict[str, Any]) -> None:
    """Where nobody keeps a ledger."""


@dataclass(frozen=True)
class Rules:
    """What becomes of a step whose loss or gradient is not a finite number."""

    skip_nonfinite: bool = False
    """Leave its batch out, instead of stopping."""
    max_skipped_steps: int = 10
    """How many steps of a run may be left out."""
    write_down: Callable[[dict[str, Any]], None] = _unwritten
    """Given what happened to a step, for the run's ledger; called on every rank."""


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    work: Work
    """As it was done, in the end."""
    loss: float
    rank_loss: float | None
    grad_norm: float
    sync: SyncResult
    agreement: Agreement
    applied: bool
    """Whether there was an update; otherwise the batch was left out."""
    loss_scale: float
    worst_loss: float | None = None
    """Mean loss per window of this rank's micro-batch in which it is highest."""
    far_windows: list[int] = field(default_factory=list)
    """The windows of that one, where its loss is far above that of the batch."""


class _Verdict(Enum):
    APPLY = auto()
    REPEAT = auto()
    LEAVE_OUT = auto()


class Stepper:
    """Runs steps. What one rank's part comes to is everybody's: all repeat, skip, fail or update.

    A step is repeated with smaller micro-batches when memory was too small anywhere, and with a
    smaller loss scale when the summed gradient overflowed float16.
    """

    def __init__(
        self,
        group: Group,
        model: Model,
        sync: GradientSync,
        update: Update,
        loader: Loader,
        rules: Rules,
    ) -> None:
        self._group = group
        self._model = model
        self._sync = sync
        self._update = update
        self._loader = loader
        self._rules = rules
        self._control = Control(group)
        self._gradients = Gradients(group, model, sync, loader)
        self.device = model.device
        self.skipped_steps = 0
        """Steps of this run without an update; the learning rate does not count them."""

    def run(
        self,
        step: int,
        work: Work | Exception,
        learning_rate: float,
        clock: StepClock,
        wishes: Callable[[], Wishes] = Wishes,
        measure: bool = False,
    ) -> Outcome:
        """Do one update; ``work`` is an exception if the data of this rank could not be had.

        ``wishes`` is asked as late as possible, and what came of it is in the outcome's agreement.

        Raises:
            StepError: on all ranks together, naming rank, step and examples.
        """
        self._model.precision.begin()
        while True:
            trial = self._gradients.compute(step, work, clock, measure)
            norm = self._measure(trial, clock)
            report = replace(trial.report, gradient_norm=norm, **asdict(wishes()))
            if clock.on_device:  # it has passed all this by now: the norm was waited for
                report = replace(report, busy_s=clock.spent("data", "copy", "forward", "backward"))
            with lost_at(self._group.rank, step, "agreement"):
                with clock.part("control"):
                    agreement = self._control.exchange(report)
                self._gradients.pace.met()
                scale = self._model.precision.loss_scale
                verdict = self._judge(step, trial, agreement)
            if verdict is not _Verdict.REPEAT:
                break
        norm = agreement.gradient_norm
        if verdict is _Verdict.APPLY:
            with clock.part("optimizer"):
                if agreement.unsettled:  # what takes no part has no gradient from here on
                    with lost_at(self._group.rank, step, "agreement"):
                        norm = self._group.gather_json(self._update.measure(1.0))[0]
                self._update.apply(learning_rate, norm)
            self._model.precision.applied()
        return _outcome(trial, agreement, norm, verdict is _Verdict.APPLY, scale)

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps beside weights and optimizer."""
        return {"skipped_steps": self.skipped_steps, **self._model.precision.state()}

    def load(self, state: dict[str, float]) -> None:
        """Take over what :meth:`state` gave."""
        self.skipped_steps = int(state.get("skipped_steps", 0))
        self._model.precision.load(state)

    def _measure(self, trial: Trial, clock: StepClock) -> float:
        """The norm of the summed gradient, if there is one."""
        if trial.problem is not None:
            return 0.0
        with clock.part("optimizer"):
            enter("sync")  # on a device, the norm is where the host waits for the sum
            return self._update.measure(self._model.precision.loss_scale)

    def _judge(self, step: int, trial: Trial, agreement: Agreement) -> _Verdict:
        if agreement.failed:
            self._control.raise_together(step, trial.problem)
        if agreement.out_of_memory_tokens:
            self._shrink(step, agreement)
            return _Verdict.REPEAT
        if agreement.nonfinite_loss:
            return self._leave_out(step, trial.problem)
        if agreement.unsettled and self._settle().repeat:
            return _Verdict.REPEAT
        if not agreement.nonfinite_gradient:
            return _Verdict.APPLY
        if self._model.precision.lower():
            log.info(
                "step %d: the gradient overflowed float16, so the step is repeated with a loss "
                "scale of %g",
                step,
                self._model.precision.loss_scale,
            )
            return _Verdict.REPEAT
        assert trial.work is not None
        return self._leave_out(step, self._gradients.blame(step, trial.work))

    def _shrink(self, step: int, agreement: Agreement) -> None:
        """Cut micro-batches to half of the one that did not fit; all ranks alike."""
        before = self._loader.cutting.micro_batch_tokens
        after = agreement.out_of_memory_tokens // 2
        self._loader.cut_to(after)
        ranks = [rank for rank, r in enumerate(agreement.reports) if r.out_of_memory_tokens]
        why = f"out of memory on rank {', '.join(map(str, ranks))}"
        log.warning(
            "step %d: %s, so it is repeated, and from here on micro-batches have at most %d padded "
            "tokens instead of %d (train.micro_batch_tokens). The batch stays as it is",
            step,
            why,
            after,
            before,
        )
        entry = {"changed": "micro_batch_tokens", "from": before, "to": after, "why": why}
        self._rules.write_down({"step": step, **entry})

    def _leave_out(self, step: int, problem: Problem | None) -> _Verdict:
        """The loss or the gradient is not finite: stop, or go on without this batch."""
        text = self._control.failure(step, problem)
        if not self._rules.skip_nonfinite:
            raise NotFiniteError(
                f"{text}. A lower train.learning_rate or train.max_grad_norm usually helps, if it "
                "is not the first step; train.on_nonfinite=skip leaves such batches out."
            )
        if self.skipped_steps >= self._rules.max_skipped_steps:
            many = self.skipped_steps != 1
            left_out = f"{self.skipped_steps} {'steps were' if many else 'step was'}"
            raise NotFiniteError(
                f"{text}. {left_out} left out before (train.max_skipped_steps), so something is "
                "wrong with the data or the learning rate."
            )
        self.skipped_steps += 1
        log.warning("%s. Its batch is left out (train.on_nonfinite).", text)
        self._rules.write_down({"step": step, "changed": "skipped", "why": text})
        return _Verdict.LEAVE_OUT

    def _settle(self) -> Settled:
        settled = self._sync.settle(self._group)
        if settled.unused and self._group.rank == 0:
            log.info(unused_text(settled.unused))
        return settled


def _outcome(
    trial: Trial, agreement: Agreement, norm: float, applied: bool, loss_scale: float
) -> Outcome:
    work = trial.work
    assert work is not None, "a failed work never comes back from the judgement"
    rank_weight = sum(float(piece.tensors["weight"].sum()) for piece in work.pieces)
    loss = agreement.loss_sum / work.batch_weight
    worst_loss, piece = trial.worst or (None, None)
    far = worst_loss is not None and loss > 0 and worst_loss > FAR * loss
    return Outcome(
        work=work,
        loss=loss,
        rank_loss=trial.report.loss_sum / rank_weight if rank_weight else None,
        grad_norm=norm,
        sync=trial.sync,
        agreement=agreement,
        applied=applied,
        loss_scale=loss_scale,
        worst_loss=worst_loss,
        far_windows=[int(w) for w in piece.windows] if far and piece is not None else [],
    )


def unused_text(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    return f"{len(names)} parameters get no gradient and are left as they are: {shown}"
