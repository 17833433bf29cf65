"""One step: forward and backward of this rank's shares, one sum, one decision, one update."""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from lightwork.comm.group import Group
from lightwork.data.loader import Piece, Work
from lightwork.errors import LightworkError, PeerLostError, StepError
from lightwork.sync.contract import GradientSync, Settled, SyncResult
from lightwork.telemetry.timing import StepClock
from lightwork.train.control import Agreement, Control, Problem, Report

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightwork.tasks.contract import Batch, Task

log = logging.getLogger("lightwork")


class Update(Protocol):
    """What turns the summed gradients into new weights: local now, elsewhere on servers."""

    def apply(self, learning_rate: float) -> tuple[float, bool]:
        """Returns (norm of the gradient, whether it was applied)."""
        ...


@dataclass(frozen=True)
class Model:
    """The model as training sees it."""

    module: nn.Module
    """The bare module: evaluation and checkpoints use this one."""
    trained: nn.Module
    """What the GradientSync gave back to be called in training."""
    task: Task
    device: torch.device
    example_ids: Callable[[list[int]], list[str]]
    """The ids of the examples that windows come from, for messages."""

    def on_device(self, batch: Batch) -> Batch:
        """The batch on the model's device."""
        return {name: t.to(self.device, non_blocking=True) for name, t in batch.items()}


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    loss: float
    rank_loss: float | None
    grad_norm: float
    sync: SyncResult
    agreement: Agreement


class Progress:
    """How far a rank has come in its micro-batches, for messages about failures."""

    def __init__(self) -> None:
        self.losses: list[tuple[Piece, Tensor]] = []
        self.current: Piece | None = None

    def start(self, piece: Piece) -> None:
        """A micro-batch begins."""
        self.current = piece

    def end(self, piece: Piece, loss: Tensor) -> None:
        """A micro-batch is done; its summed loss stays on the device."""
        self.losses.append((piece, loss.detach().double()))
        self.current = None

    def loss_sum(self) -> float:
        """The sum of all losses, in order."""
        return float(sum(loss for _, loss in self.losses))

    def suspects(self) -> list[int]:
        """The windows of the micro-batch that failed, or of those without a finite loss."""
        if self.current is not None:
            return [int(window) for window in self.current.windows]
        bad = [piece for piece, loss in self.losses if not math.isfinite(float(loss))]
        return [int(window) for piece in bad for window in piece.windows]


def forward_backward(
    model: Model,
    pieces: list[Piece],
    sync: GradientSync,
    scale: float,
    progress: Progress,
    clock: StepClock,
) -> None:
    """Run all micro-batches.

    ``scale`` is applied to each loss *before* backward, so the summed gradients are final.
    """
    for number, piece in enumerate(pieces):
        progress.start(piece)
        torch.manual_seed(piece.seed)
        with sync.micro_batch(piece.share, last=number == len(pieces) - 1):
            with clock.part("forward"):
                batch = model.on_device(piece.tensors)
                loss = model.task.loss(model.task.forward(model.trained, batch), batch)
            with clock.part("backward"):
                (loss * scale).backward()
        progress.end(piece, loss)


class Stepper:
    """Runs steps. A step that fails on any rank is discarded by all of them together."""

    def __init__(
        self,
        group: Group,
        model: Model,
        sync: GradientSync,
        update: Update,
        filler: Callable[[], Batch],
    ) -> None:
        """``filler()`` makes a micro-batch for ranks that have none but need a backward."""
        self._group = group
        self._model = model
        self._sync = sync
        self._update = update
        self._filler = filler
        self._control = Control(group)
        self.device = model.device

    def run(
        self,
        step: int,
        work: Work | Exception,
        learning_rate: float,
        wish_save: bool,
        clock: StepClock,
        measure: bool = False,
    ) -> Outcome:
        """Do one update; ``work`` is an exception if the data of this rank could not be had.

        Raises:
            StepError: on all ranks together, naming rank, step and examples.
        """
        while True:
            report, result, problem = self._gradients(step, work, clock, measure)
            agreement = self._control.exchange(replace(report, save=wish_save))
            if agreement.failed:
                self._control.raise_together(step, problem)
            if not agreement.unsettled or not self._settle().repeat:
                break
        assert isinstance(work, Work)
        with clock.part("optimizer"):
            norm, applied = self._update.apply(learning_rate)
        if not applied:
            raise StepError(
                f"step {step} failed, nothing of it was applied: the loss is finite but the norm "
                f"of the summed gradient is {norm}. A lower train.learning_rate or "
                "train.max_grad_norm usually helps."
            )
        rank_weight = sum(float(piece.tensors["weight"].sum()) for piece in work.pieces)
        return Outcome(
            loss=agreement.loss_sum / work.batch_weight,
            rank_loss=report.loss_sum / rank_weight if rank_weight else None,
            grad_norm=norm,
            sync=result,
            agreement=agreement,
        )

    def _settle(self) -> Settled:
        settled = self._sync.settle(self._group)
        if settled.unused and self._group.rank == 0:
            log.info(unused_text(settled.unused))
        return settled

    def _gradients(
        self, step: int, work: Work | Exception, clock: StepClock, measure: bool
    ) -> tuple[Report, SyncResult, Problem | None]:
        """This rank's part up to the summed gradients; failures become words, not exceptions."""
        self._sync.begin(measure)
        loss_sum, text = 0.0, None
        progress = Progress()
        try:
            if isinstance(work, Exception):
                raise work
            loss_sum = self._losses(work, progress, clock)
        except PeerLostError:
            raise  # there is nobody left to decide anything with
        except LightworkError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - told to all ranks, who stop together
            text = f"{type(error).__name__}: {error}"
            log.error("step %d failed on this rank\n%s", step, traceback.format_exc())
        if text is not None and not self._sync.can_discard:
            alone = StepError(f"step {step} failed on rank {self._group.rank}: {text}")
            alone.joint = False  # the others wait inside backward until this process has ended
            raise alone
        result = self._sync.finish()
        clock.add("sync", result.exposed_s)
        nonfinite = text is None and not math.isfinite(loss_sum)
        if nonfinite:
            text = f"the loss is {loss_sum}, not a finite number"
        report = Report(
            loss_sum=loss_sum,
            nonfinite=nonfinite,
            failed=text is not None and not nonfinite,
            unsettled=self._sync.unsettled(),
        )
        return report, result, self._problem(step, text, progress) if text else None

    def _problem(self, step: int, text: str, progress: Progress) -> Problem:
        """The message shows some examples of the micro-batch, this rank's log has all."""
        examples = self._model.example_ids(progress.suspects())
        if examples:
            log.error("step %d failed with the examples %s", step, ", ".join(examples))
        return Problem(text, examples)

    def _losses(self, work: Work, progress: Progress, clock: StepClock) -> float:
        scale = self._sync.scale / work.batch_weight
        pieces = work.pieces
        if not pieces and self._sync.needs_backward:
            pieces, scale = [Piece(0, 0, 0, np.zeros(0, np.int32), 0, self._filler())], 0.0
        forward_backward(
            self._model,
            pieces,
            self._sync,
            scale,
            progress,
            clock,
        )
        return progress.loss_sum() if work.pieces else 0.0


def unused_text(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    return f"{len(names)} parameters get no gradient and are left as they are: {shown}"
