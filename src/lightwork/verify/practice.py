"""A few steps as a run does them, watched: with dropout, clipping and the run's own strategy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from lightwork.data.loader import Work
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.sums import Sums, tensor_sums
from lightwork.verify.verdict import RowFailedError, gathered

STEPS = 3

Stream = list[Any]
"""``[step, share, micro-batch, digest of torch's random state when its forward began]``"""


@dataclass(frozen=True)
class Practice:
    """What was seen, by rank."""

    streams: list[list[Stream]]
    before: list[Sums]
    """Checksums of the initial weights."""
    weights: list[Sums]
    """Those after ``STEPS`` steps."""
    optimizer: list[Sums]


def practise(subject: Subject) -> Practice | RowFailedError:
    """Do ``STEPS`` steps from the initial weights; what stopped them is given back, not raised."""
    group = subject.group
    trainee = subject.build(group, True)
    try:
        before = gathered(group, lambda: tensor_sums(trainee.weights()))
        return Practice(
            streams=gathered(group, lambda: watched_steps(trainee, STEPS)),
            before=before,
            weights=gathered(group, lambda: tensor_sums(trainee.weights())),
            optimizer=gathered(group, lambda: tensor_sums(trainee.optimizer())),
        )
    except RowFailedError as error:
        return error


def watched_steps(trainee: Trainee, steps: int) -> list[Stream]:
    """Do so many steps; the random state at the forward of each micro-batch of this rank."""
    states: list[str] = []
    device = trainee.model.device

    def note(*_: Any) -> None:
        states.append(random_state(device))

    streams = []
    hook = trainee.model.module.register_forward_pre_hook(note)
    try:
        for step in range(trainee.first_step, trainee.first_step + steps):
            states.clear()
            work = trainee.step(step, trainee.learning_rate)
            streams.append((work, list(states)))
    finally:
        hook.remove()
    return [stream for work, seen in streams for stream in _named(work, seen)]


def _named(work: Work, states: list[str]) -> list[Stream]:
    """A step that was repeated has its forwards again; the last ones count."""
    pieces = work.pieces
    if len(states) < len(pieces):
        raise RowFailedError(
            f"step {work.step} has {len(pieces)} micro-batches here, but the model was called "
            f"{len(states)} times"
        )
    last = states[len(states) - len(pieces) :]
    return [
        [work.step, piece.share, piece.index, state]
        for piece, state in zip(pieces, last, strict=True)
    ]


def random_state(device: torch.device) -> str:
    """16 hex digits of the state that dropout on ``device`` draws from."""
    cuda = device.type == "cuda"
    state = torch.cuda.get_rng_state(device) if cuda else torch.get_rng_state()
    return hashlib.blake2b(state.numpy().data, digest_size=8).hexdigest()
