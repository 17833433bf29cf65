"""The one small message per step in which all ranks decide together.

Nothing that several ranks must do alike is decided by one rank alone: a failure, a repeat, a
save. Everything travels as one row of numbers per rank, on the CPU, whatever the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from typing import NoReturn

import torch

from lightwork.comm.group import Group
from lightwork.errors import ExchangeError, PeerLostError, StepError


@dataclass(frozen=True)
class Report:
    """What one rank says after its part of a step."""

    loss_sum: float = 0.0
    nonfinite_loss: bool = False
    gradient_norm: float = 0.0
    """Of the summed gradient; not finite where that is not."""
    failed: bool = False
    out_of_memory_tokens: int = 0
    """Padded tokens of the micro-batch for which memory was too small; 0: it was not."""
    unsettled: bool = False
    save: bool = False
    stop_signal: int = 0
    time_up: bool = False
    busy_s: float = 0.0
    """How long this rank has been at work since all last met, up to the end of its backward."""


@dataclass(frozen=True)
class Wishes:
    """What is to be done after a step: what one rank wants before it, what all agreed on after."""

    save: bool = False
    """A checkpoint."""
    stop_signal: int = 0
    """The number of a signal that asks the run to leave; 0: none."""
    time_up: bool = False
    """The run has had the time that it may take."""


NO_WISHES = Wishes()


@dataclass(frozen=True)
class Problem:
    """Why a rank's part of a step failed, and the ids of the examples it was working on."""

    text: str
    examples: Sequence[str]
    repeats: bool = False
    """Whether a new attempt would fail alike, so that somebody has to mend something."""


@dataclass(frozen=True)
class Agreement:
    """What all ranks said together."""

    reports: tuple[Report, ...]

    @property
    def loss_sum(self) -> float:
        """Sum of the batch's losses, added in rank order."""
        return sum(report.loss_sum for report in self.reports)

    @property
    def failed(self) -> bool:
        """Whether an exception ended the step anywhere."""
        return any(report.failed for report in self.reports)

    @property
    def nonfinite_loss(self) -> bool:
        """Whether any rank has a loss that is not finite."""
        return any(report.nonfinite_loss for report in self.reports)

    @property
    def nonfinite_gradient(self) -> bool:
        """Whether the summed gradient is not finite; every loss may be, all the same."""
        return any(not math.isfinite(report.gradient_norm) for report in self.reports)

    @property
    def gradient_norm(self) -> float:
        """That of rank 0 for all of them: another device may round it otherwise."""
        return self.reports[0].gradient_norm

    @property
    def out_of_memory_tokens(self) -> int:
        """Padded tokens of the smallest micro-batch that did not fit anywhere; 0: all did."""
        return min(
            (r.out_of_memory_tokens for r in self.reports if r.out_of_memory_tokens), default=0
        )

    @property
    def slowest(self) -> int:
        """The rank that was at work longest, for which the others waited."""
        return max(range(len(self.reports)), key=lambda rank: self.reports[rank].busy_s)

    @property
    def unsettled(self) -> bool:
        """Whether any rank has news about the parameters that take part."""
        return any(report.unsettled for report in self.reports)

    @property
    def wishes(self) -> Wishes:
        """What any rank asks for after this step is done by all."""
        return Wishes(
            save=any(report.save for report in self.reports),
            stop_signal=next((r.stop_signal for r in self.reports if r.stop_signal), 0),
            time_up=any(report.time_up for report in self.reports),
        )


@contextmanager
def lost_at(rank: int, step: int, phase: str) -> Iterator[None]:
    """Around messages: an error that the others cannot be told says where this rank was."""
    try:
        yield
    except (PeerLostError, ExchangeError) as error:
        raise type(error)(f"rank {rank}, step {step}, {phase}: {error}") from error


SHOWN = 5
"""Examples that a message names."""


class Control:
    """Exchanges reports; every rank gets the same Agreement."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def exchange(self, report: Report) -> Agreement:
        """Tell all ranks ``report`` and hear theirs."""
        own = torch.tensor([float(value) for value in astuple(report)], dtype=torch.float64)
        rows = torch.empty(self._group.size, len(own), dtype=torch.float64)
        self._group.all_gather(rows, own).wait()
        return Agreement(tuple(_report(row) for row in rows.tolist()))

    def failure(self, step: int, problem: Problem | None) -> str:
        """After a failed step: the same words on every rank, with the causes of all of them."""
        return self._failure(step, problem)[0]

    def raise_together(self, step: int, problem: Problem | None) -> NoReturn:
        """After a failed step: every rank raises the same StepError, which names all causes."""
        text, repeats = self._failure(step, problem)
        error = StepError(text)
        error.repeats = repeats
        raise error

    def _failure(self, step: int, problem: Problem | None) -> tuple[str, bool]:
        """The words, and whether any cause repeats itself."""
        own = problem and [
            problem.text, problem.examples[:SHOWN], len(problem.examples), problem.repeats
        ]  # fmt: skip
        causes, repeats = [], False
        for rank, told in enumerate(self._group.gather_json(own)):
            if told is not None:
                text, ids, total, again = told
                repeats = repeats or again
                more = f" … ({total} in all, see this rank's log)" if total > len(ids) else ""
                of = f" (with the examples {', '.join(ids)}{more})" if ids else ""
                causes.append(f"rank {rank}: {text}{of}")
        together = "; ".join(causes) or "no micro-batch alone is to blame, but their sum"
        return f"step {step} failed, nothing of it was applied. {together}", repeats


_KINDS = {"float": float, "int": int, "bool": bool}


def _report(row: Sequence[float]) -> Report:
    kinds = [_KINDS[str(field.type)] for field in fields(Report)]
    return Report(*(kind(value) for kind, value in zip(kinds, row, strict=True)))
