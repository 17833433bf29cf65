"""What is verified, in plain values, and how a copy of it comes into being."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from lightwork.comm.group import Group
from lightwork.data.loader import Cutting, Loader, Work
from lightwork.data.store import Store
from lightwork.telemetry.timing import StepClock
from lightwork.train.model import Model
from lightwork.train.step import Stepper


@dataclass(frozen=True)
class Trainee:
    """A model with its initial weights, and what trains it: the same that a run is made of."""

    model: Model
    stepper: Stepper
    loader: Loader
    optimizer: Callable[[], dict[str, Tensor]]
    """The tensors of the optimizer's state, by name."""
    learning_rate: float
    """The highest of the run."""

    @property
    def first_step(self) -> int:
        """Where checks begin: at the last full batch of an epoch, with the short one behind it.

        Not at step 1, whose batch is the largest of a run and would take longest.
        """
        return max(1, self.loader.batches_per_epoch - 1)

    def weights(self) -> dict[str, Tensor]:
        """All tensors of the model, by name."""
        return dict(self.model.module.state_dict())

    def step(self, number: int, learning_rate: float) -> Work:
        """Do update ``number`` as a run does it; returns this rank's part of it.

        Raises StepError, on all ranks together where the strategy allows it.
        """
        clock = StepClock(self.stepper.device)
        return self.stepper.run(number, self.loader.one(number), learning_rate, clock).work


@dataclass(frozen=True)
class Subject:
    """Settings, data and ranks, as far as the checks need to know them."""

    group: Group
    train: Store
    dev: Store | None
    device: str
    """``cpu`` or ``cuda``."""
    strategy: str
    precision: str
    batch_size: int
    """Windows of a batch in the run itself."""
    max_tokens: int
    """Tokens of the longest window that the settings allow."""
    evaluation_tokens: int
    """Padded tokens of an evaluation batch."""
    cutting: Cutting
    """How the batches are formed and cut on which steps are checked: perhaps smaller ones."""
    bare_loader: Callable[[Group], Loader]
    """The loader of the run itself, for a group of ranks, but without tensors."""
    build: Callable[[Group, bool], Trainee]
    """``build(group, clips)``: on these ranks, with ``cutting``; ``clips``: gradients are clipped
    as in the run. Every rank of the group calls it."""
