"""Which windows the ranks learn from, before anything is computed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lightwork.comm.group import Group
from lightwork.data.loader import Loader, Work
from lightwork.verify.subject import Subject
from lightwork.verify.verdict import RowFailedError, Verdict, counted, gathered, listed

WINDOWS = "every window once"
SHUFFLES = "shuffles"
EPOCHS = 2

FEWEST_WINDOWS = 16
"""Below, two shuffles may be the same by accident."""
TELLING_BATCH = 4
"""Batches of fewer windows are often the same in two epochs by accident."""


def every_window_once(subject: Subject) -> Verdict:
    """Every window is in exactly one share of an epoch, over all ranks, and none is missing."""
    group, loader, windows = subject.group, subject.bare_loader(subject.group), len(subject.train)
    counts = torch.zeros(EPOCHS, windows, dtype=torch.int32)
    gathered(group, lambda: _count(loader, counts.numpy()))
    group.all_reduce(counts).wait()
    problems = [text for epoch in range(EPOCHS) if (text := _amiss(group, loader, counts, epoch))]
    if problems:
        return Verdict(WINDOWS, False, "; ".join(problems))
    rest = windows % subject.batch_size
    last = f", the last of {rest}" if rest else ""
    return Verdict(
        WINDOWS,
        True,
        f"{counted(windows, 'window')}, each in exactly one share of epochs 1 and 2; "
        f"{counted(loader.batches_per_epoch, 'batch')} of {subject.batch_size}{last}",
    )


def _works(loader: Loader) -> Iterator[Work]:
    return loader.work(1, EPOCHS * loader.batches_per_epoch)


def _count(loader: Loader, counts: np.ndarray) -> None:
    for work in _works(loader):
        for piece in work.pieces:
            np.add.at(counts[work.position.epoch], piece.windows, 1)


def _amiss(group: Group, loader: Loader, counts: Tensor, epoch: int) -> str:
    """What is wrong in an epoch, if anything; ``counts`` are those of all ranks."""
    missing = (counts[epoch] == 0).nonzero()[:, 0].tolist()
    several = (counts[epoch] > 1).nonzero()[:, 0].tolist()
    found = [f"windows {listed(missing)} in no share"] if missing else []
    if several:
        told = gathered(group, lambda: _places(loader, epoch, several[0]))
        places = [f"{place} (rank {rank})" for rank, own in enumerate(told) for place in own]
        found.append(
            f"windows {listed(several)} more than once, window {several[0]} in {listed(places)}"
        )
    return f"epoch {epoch + 1}: {', '.join(found)}" if found else ""


def _places(loader: Loader, epoch: int, window: int) -> list[str]:
    """Where this rank meets a window in an epoch."""
    return [
        f"share {piece.share} of step {work.step}"
        for work in _works(loader)
        if work.position.epoch == epoch
        for piece in work.pieces
        for _ in range(int((piece.windows == window).sum()))
    ]


def shuffles(subject: Subject) -> Verdict:
    """Two epochs differ in their batches, and all ranks form the same ones."""
    loader = subject.bare_loader(Group.alone())  # all shares, as this rank would cut them
    batches = loader.batches_per_epoch
    told = gathered(subject.group, lambda: [_digest(work) for work in _works(loader)])
    for rank, other in enumerate(told):
        if other != told[0]:
            place = next(
                i for i, pair in enumerate(zip(told[0], other, strict=True)) if len({*pair}) > 1
            )
            raise RowFailedError(
                f"rank {rank} forms the batch of step {place + 1} (epoch {place // batches + 1}) "
                "from other windows than rank 0"
            )
    size = subject.batch_size
    if batches == 1 or len(subject.train) < FEWEST_WINDOWS:
        return Verdict(
            SHUFFLES,
            None,
            f"not checked: {counted(len(subject.train), 'window')} in {counted(batches, 'batch')} "
            "are too few to shuffle",
        )
    first, second = told[0][:batches], told[0][batches:]
    kept, where = len(set(first) & set(second)), "in epoch 2 as well"
    if size < TELLING_BATCH:
        kept = sum(one == other for one, other in zip(first, second, strict=True))
        where = "at the same place in epoch 2"
    if first == second or 2 * kept > batches:
        what = "the same order" if first == second else f"{kept} of {batches} batches the same"
        return Verdict(SHUFFLES, False, f"epochs 1 and 2 have {what}")
    ranks = "" if subject.group.size == 1 else f"; the same on all {subject.group.size} ranks"
    return Verdict(
        SHUFFLES,
        True,
        f"{kept} of {counted(batches, 'batch')} of epoch 1 are {where}{ranks}",
    )


def _digest(work: Work) -> str:
    """16 hex digits of the windows in a batch, in whatever order."""
    windows = np.sort(np.array(work.windows, np.int64))
    return hashlib.blake2b(windows.tobytes(), digest_size=8).hexdigest()
