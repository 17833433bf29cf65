"""The one small message per step in which all ranks decide together.

Nothing that several ranks must do alike is decided by one rank alone: a failure, a repeat, a
save. Everything travels as one row of numbers per rank, on the CPU, whatever the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import torch

from lightwork.comm.group import Group
from lightwork.errors import StepError


@dataclass(frozen=True)
class Report:
    """What one rank says after its part of a step."""

    loss_sum: float = 0.0
    nonfinite: bool = False
    failed: bool = False
    unsettled: bool = False
    save: bool = False


@dataclass(frozen=True)
class Problem:
    """Why a rank's part of a step failed, and the ids of the examples it was working on."""

    text: str
    examples: Sequence[str]


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
        """Whether the step failed anywhere, by an exception or a loss that is not finite."""
        return any(report.failed or report.nonfinite for report in self.reports)

    @property
    def unsettled(self) -> bool:
        """Whether any rank has news about the parameters that take part."""
        return any(report.unsettled for report in self.reports)

    @property
    def save(self) -> bool:
        """Whether any rank asks for a checkpoint after this step."""
        return any(report.save for report in self.reports)


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

    def raise_together(self, step: int, problem: Problem | None) -> None:
        """After a failed step: every rank raises the same StepError, which names all causes."""
        own = problem and [problem.text, problem.examples[:SHOWN], len(problem.examples)]
        causes = []
        for rank, told in enumerate(self._group.gather_json(own)):
            if told is not None:
                text, ids, total = told
                more = f" … ({total} in all, see this rank's log)" if total > len(ids) else ""
                of = f" (with the examples {', '.join(ids)}{more})" if ids else ""
                causes.append(f"rank {rank}: {text}{of}")
        raise StepError(f"step {step} failed, nothing of it was applied. {'; '.join(causes)}")


def _report(row: Sequence[float]) -> Report:
    kinds = [field.type for field in fields(Report)]
    values = [
        value if kind == "float" else bool(value) for kind, value in zip(kinds, row, strict=True)
    ]
    return Report(*values)  # type: ignore[arg-type]
