"""One rank's part of a step: the summed gradients, or in words why there are none."""

from __future__ import annotations

import logging
import math
import traceback
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from lightwork.comm.group import Group
from lightwork.comm.phases import SHOWN_EXAMPLES, work_on
from lightwork.data.loader import Loader, Piece, Work
from lightwork.errors import ExchangeError, LightworkError, PeerLostError, StepError
from lightwork.sync.contract import GradientSync, SyncResult
from lightwork.telemetry.timing import StepClock
from lightwork.train.control import Problem, Report, lost_at
from lightwork.train.determinism import refusals_named
from lightwork.train.memory import is_out_of_memory, let_go
from lightwork.train.model import Model
from lightwork.train.pace import Pace

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("lightwork")


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

    def worst(self) -> tuple[float, Piece] | None:
        """The highest mean loss per window of a micro-batch, and which; None without windows."""
        if not self.losses:
            return None
        sums = torch.stack([loss for _, loss in self.losses]).tolist()  # one copy from the device
        means = [
            (loss_sum / weight, piece)
            for loss_sum, (piece, _) in zip(sums, self.losses, strict=True)
            if (weight := float(piece.tensors["weight"].sum()))
        ]
        return max(means, key=lambda mean: mean[0], default=None)

    def suspects(self) -> list[Piece]:
        """The micro-batch that failed, or those without a finite loss."""
        if self.current is not None:
            return [self.current]
        return [piece for piece, loss in self.losses if not math.isfinite(float(loss))]


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
        work_on(partial(model.example_ids, [int(w) for w in piece.windows[: SHOWN_EXAMPLES + 1]]))
        with sync.micro_batch(piece.share, last=number == len(pieces) - 1):
            with clock.part("copy"):
                batch = model.on_device(piece.tensors)
            with clock.part("forward"):
                loss = model.loss(model.trained, piece, batch)
            with clock.part("backward"):
                (loss * scale).backward()
        progress.end(piece, loss)


@dataclass(frozen=True)
class Trial:
    """What came of this rank's part."""

    work: Work | None
    """As it was done; None where the data could not be had."""
    report: Report
    sync: SyncResult
    problem: Problem | None
    worst: tuple[float, Piece] | None = None
    """The highest mean loss per window of a micro-batch, and which one has it."""


@dataclass(frozen=True)
class _Ended:
    """How forward and backward of this rank ended."""

    loss_sum: float = 0.0
    text: str | None = None
    """What went wrong, if anything did."""
    out_of_memory_tokens: int = 0
    """Above 0 where a smaller micro-batch may do."""
    repeats: bool = False
    """Whether a new attempt would fail alike."""


class Gradients:
    """Makes the gradients of this rank's shares and sums them; failures become words."""

    def __init__(self, group: Group, model: Model, sync: GradientSync, loader: Loader) -> None:
        self.pace = Pace()
        self._group = group
        self._model = model
        self._sync = sync
        self._loader = loader

    def compute(self, step: int, work: Work | Exception, clock: StepClock, measure: bool) -> Trial:
        """This rank's part up to the summed gradients, which are still scaled.

        Raises only where the others cannot be told: PeerLostError, and with a GradientSync that
        cannot discard a step.
        """
        self._sync.begin(measure, self._rows(step, work))
        progress = Progress()
        try:
            work = self._loader.fitting(_had(work))
            with lost_at(self._group.rank, step, "backward"):
                ended = self._ended(work, progress, clock)
        except (PeerLostError, ExchangeError):
            raise  # there is nobody left to decide anything with
        except Exception as error:  # noqa: BLE001 - told to all ranks, who decide together
            ended = _failed(step, error, progress)
        backward_ran = not math.isfinite(ended.loss_sum)  # or there would be no such loss
        if ended.text is not None and not backward_ran and not self._sync.can_discard:
            alone = StepError(f"step {step} failed on rank {self._group.rank}: {ended.text}")
            alone.joint = False  # the others wait inside backward until this process has ended
            raise alone
        if ended.text is not None:
            let_go(self._model.device)
        busy_s = self.pace.busy_s()
        with clock.part("sync"), lost_at(self._group.rank, step, "exchange of gradients"):
            result = self._sync.finish()
        if result.own_norm is not None:
            result = replace(result, own_norm=result.own_norm / self._model.precision.loss_scale)
        trial = self._trial(step, work, ended, result, progress)
        return replace(trial, report=replace(trial.report, busy_s=busy_s))

    def _rows(self, step: int, work: Work | Exception) -> Tensor | None:
        """Also where there is no work: the others send so many rows, and wait for as many."""
        if isinstance(work, Work):
            return work.rows
        try:
            return self._loader.rows(step)
        except Exception as error:
            alone = StepError(f"step {step} failed on rank {self._group.rank}: {_words(error)}")
            alone.joint = False
            raise alone from error

    def blame(self, step: int, work: Work) -> Problem | None:
        """After a gradient that is not finite although all losses are: this rank's part in it."""
        guilty = []
        try:
            guilty = [piece for piece in work.pieces if not self._is_finite(piece, work)]
        except Exception as error:  # noqa: BLE001 - it is only to say more, and all ranks say it
            return Problem(f"its gradient could not be looked at ({_words(error)})", ())
        if not guilty:
            return None
        return self._problem(step, "the gradient is not finite, although the loss is", guilty)

    def _is_finite(self, piece: Piece, work: Work) -> bool:
        """Whether the gradient of this micro-batch alone is finite; no ``grad`` is touched."""
        batch = self._model.on_device(piece.tensors)
        loss = self._model.loss(self._model.module, piece, batch)
        learned = [p for p in self._model.module.parameters() if p.requires_grad]
        mean = loss / work.batch_weight  # no loss scale: with it innocent ones may overflow, too
        found = torch.autograd.grad(mean, learned, allow_unused=True)
        return all(bool(gradient.isfinite().all()) for gradient in found if gradient is not None)

    def _ended(self, work: Work, progress: Progress, clock: StepClock) -> _Ended:
        scale = self._sync.scale * self._model.precision.loss_scale / work.batch_weight
        pieces = work.pieces
        if not pieces and self._sync.needs_backward:
            pieces, scale = [self._loader.filler()], 0.0
        with refusals_named():
            forward_backward(self._model, pieces, self._sync, scale, progress, clock)
        loss_sum = progress.loss_sum() if work.pieces else 0.0
        if math.isfinite(loss_sum):
            return _Ended(loss_sum)
        return _Ended(loss_sum, f"the loss is {loss_sum}, not a finite number")

    def _trial(
        self,
        step: int,
        work: Work | Exception,
        ended: _Ended,
        result: SyncResult,
        progress: Progress,
    ) -> Trial:
        nonfinite = not math.isfinite(ended.loss_sum)
        report = Report(
            loss_sum=ended.loss_sum,
            nonfinite_loss=nonfinite,
            failed=ended.text is not None and not nonfinite and not ended.out_of_memory_tokens,
            out_of_memory_tokens=ended.out_of_memory_tokens,
            unsettled=self._sync.unsettled(),
        )
        problem = None
        if ended.text is not None:
            problem = self._problem(step, ended.text, progress.suspects())
            problem = replace(problem, repeats=ended.repeats)
        had = work if isinstance(work, Work) else None
        worst = progress.worst() if had and had.pieces and problem is None else None
        return Trial(had, report, result, problem, worst)

    def _problem(self, step: int, text: str, pieces: list[Piece]) -> Problem:
        """The message shows some examples of the micro-batches, this rank's log has all."""
        examples = self._model.example_ids([int(w) for piece in pieces for w in piece.windows])
        if examples:
            log.error("step %d failed with the examples %s", step, ", ".join(examples))
        return Problem(text, examples)


def _had(work: Work | Exception) -> Work:
    if isinstance(work, Exception):
        raise work
    return work


def _failed(step: int, error: Exception, progress: Progress) -> _Ended:
    """``error`` in words; it is not kept, since it holds what was in memory."""
    if is_out_of_memory(error):
        return _out_of_memory(progress.current)
    if not isinstance(error, LightworkError):
        log.error("step %d failed on this rank\n%s", step, traceback.format_exc())
    repeats = isinstance(error, LightworkError) and error.repeats
    return _Ended(text=_words(error), repeats=repeats)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, LightworkError) else f"{type(error).__name__}: {error}"


def _out_of_memory(piece: Piece | None) -> _Ended:
    if piece is None:
        return _Ended(text="out of memory")
    count, tokens = len(piece.windows), piece.padded_tokens
    if count > 1:
        return _Ended(
            text=f"out of memory with a micro-batch of {count} windows of {tokens} tokens",
            out_of_memory_tokens=count * tokens,
        )
    return _Ended(
        text=f"out of memory with a single window of {tokens} tokens, so smaller micro-batches "
        "would not help; train.activation_checkpointing=true needs less, as does a smaller "
        "data.max_length or model"
    )
