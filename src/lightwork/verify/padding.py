"""Whether the loss of some windows depends on the company they are computed in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lightwork.verify.gradients import ALLOWED
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.verdict import RowFailedError, Verdict, gathered

PADDING = "padding and cutting"
MOST_WINDOWS = 8


def padding_and_cutting(subject: Subject, trainee: Trainee) -> Verdict:
    """Windows alone and unpadded have, summed, the loss of the same windows padded together, and
    of the same windows cut in two. Every rank measures this on its own device."""
    told = gathered(subject.group, lambda: _measure(subject, trainee))
    allowed = ALLOWED["fp32"]  # nothing here runs in half precision
    windows, errors = told[0]
    tokens = subject.train.column("tokens")[windows]
    lengths = f"{len(windows)} windows of {min(tokens)} … {max(tokens)} tokens"
    for rank, (_, measured) in enumerate(told):
        for what, error in measured.items():
            if not error <= allowed:
                worst = gathered(subject.group, lambda: _farthest(subject, trainee, windows))[rank]
                raise RowFailedError(
                    f"the loss of {lengths} alone and that of them {what} differ by {error:.1e} "
                    f"on rank {rank}, allowed {allowed:g}; {worst}"
                )
            errors[what] = max(errors[what], error)
    return Verdict(
        PADDING,
        True,
        f"{lengths} alone, padded to {subject.max_tokens} together, and cut in two: the same sum "
        f"within {max(errors.values()):.1e}, allowed {allowed:g}",
    )


def _measure(subject: Subject, trainee: Trainee) -> tuple[list[int], dict[str, float]]:
    """Some windows, and by how much their loss in company differs, relative to that alone."""
    tokens = subject.train.column("tokens")
    windows = _of_all_lengths(tokens)
    trainee.model.module.eval()
    longest, half = subject.max_tokens, (len(windows) + 1) // 2
    alone = sum(_loss(subject, trainee, [window], int(tokens[window])) for window in windows)
    sums = {
        "padded together": _loss(subject, trainee, windows, longest),
        "cut in two": sum(
            _loss(subject, trainee, part, longest)
            for part in (windows[:half], windows[half:])
            if part
        ),
    }
    return windows, {what: abs(value - alone) / abs(alone) for what, value in sums.items()}


def _of_all_lengths(tokens: Any) -> list[int]:
    """A few windows, from the shortest to the longest."""
    order = np.argsort(tokens, kind="stable")
    places = np.linspace(0, len(order) - 1, min(MOST_WINDOWS, len(order))).astype(int)
    return [int(window) for window in order[places]]


def _farthest(subject: Subject, trainee: Trainee, windows: list[int]) -> str:
    """Which window padding alone changes most."""
    tokens = subject.train.column("tokens")
    changes = {
        window: abs(
            _loss(subject, trainee, [window], subject.max_tokens)
            - _loss(subject, trainee, [window], int(tokens[window]))
        )
        for window in windows
    }
    window = max(changes, key=changes.__getitem__)
    return f"padding alone changes the loss of window {window} most, by {changes[window]:.1e}"


def _loss(subject: Subject, trainee: Trainee, windows: list[int], padded_tokens: int) -> float:
    model, task = trainee.model, trainee.model.task
    with torch.no_grad():
        batch = task.collate(subject.train, np.array(windows, np.int32), padded_tokens)
        batch = model.on_device(batch)
        return float(task.loss(task.forward(model.module, batch), batch))
