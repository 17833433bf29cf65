"""The newest state of a run in the memory of its machine: a process that dies costs steps, not half
an hour. What ends the machine ends it too; the checkpoints on the disk are for that.

A snapshot is a checkpoint in a file system that lies in memory, and is trusted no more than one:
it is read when it verifies. It belongs to a run by its id and to a timeline by its attempt.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor

from lightwork.errors import CheckpointError
from lightwork.manifest import MEMORY, own_memory
from lightwork.train.checkpoint import Checkpoints, Part, read_state

log = logging.getLogger("lightwork")

RUN = "run"
"""A file that says in which folder the run lies."""
SLACK = 1.5
"""How much more than the optimizer's state all of a snapshot is, at most: AdamW's is two thirds."""


class Snapshots:
    """The snapshot of one run on this machine; nothing here ever ends a training."""

    def __init__(self, run_id: str, memory: Path = MEMORY, run: Path | None = None) -> None:
        """``memory``: the file system in memory; another user's folder in it is not touched.

        ``run``: the folder of the run. When it is deleted, the next run takes the memory back.
        """
        self._run = run
        self._own = own_memory(memory)
        self._checkpoints = Checkpoints(self._own / run_id, run_id)
        self._given_up = False

    def save(self, step: int, parts: Iterable[Part]) -> None:
        """Replace the snapshot by that of ``step``; where there is no room, say so once."""
        if self._given_up:
            return
        held = list(parts)
        try:
            self._make_own_folder()
            self._forget_deleted()
            self._check_room(held)
            self._checkpoints.save(step, held, keep=1)
        except (CheckpointError, OSError) as error:
            self._given_up = True
            self.remove()
            log.warning(
                "no snapshots are kept in memory (checkpoint.snapshot_every_steps): %s", error
            )

    def newer_than(self, checkpoint: Path | None) -> Path | None:
        """The snapshot, where it verifies and goes on from ``checkpoint``, the newest on the disk.

        One of an earlier attempt than the checkpoint is of a timeline that was left.
        """
        if not self._is_own():
            return None
        try:
            found = self._checkpoints.newest(lambda problem: log.warning("in memory, %s", problem))
        except CheckpointError:
            return None
        if found is None or checkpoint is None:
            return found
        ours, theirs = read_state(found), read_state(checkpoint)
        later = ours["step"] > theirs["step"] and ours["attempt"] >= theirs.get("attempt", 0)
        return found if later else None

    def remove(self) -> None:
        """Give the memory back."""
        if self._is_own():
            shutil.rmtree(self._checkpoints.folder.parent, ignore_errors=True)

    def _make_own_folder(self) -> None:
        if not self._own.parent.is_dir():
            raise OSError(f"{self._own.parent} is no folder here")
        self._own.mkdir(mode=0o700, exist_ok=True)
        if not self._is_own():
            raise OSError(f"{self._own} belongs to somebody else")

    def _forget_deleted(self) -> None:
        """Note whose snapshot this is, and remove those of runs that are no more."""
        own = self._checkpoints.folder.parent
        own.mkdir(exist_ok=True)
        if self._run is not None and not (own / RUN).exists():
            (own / RUN).write_text(str(self._run.absolute()), encoding="utf-8")
            for note in self._own.glob(f"*/{RUN}"):
                if not Path(note.read_text(encoding="utf-8")).is_dir():
                    shutil.rmtree(note.parent, ignore_errors=True)

    def _is_own(self) -> bool:
        """Everybody may write where it lies, so it may have been put there by another user."""
        try:
            found = self._own.lstat()
        except OSError:
            return False
        mine = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return mine and stat.S_ISDIR(found.st_mode)

    def _check_room(self, parts: Sequence[Part]) -> None:
        tensors = [
            value
            for part in parts
            if not callable(part.content)
            for value in part.content.values()
            if isinstance(value, Tensor)
        ]
        needed = int(SLACK * sum(tensor.nbytes for tensor in tensors))
        free = shutil.disk_usage(self._own).free
        if free < needed:
            raise OSError(
                f"{self._own.parent} has {free / 1e6:,.1f} MB left, and one takes about "
                f"{needed / 1e6:,.1f} MB; in a container, give it more with --shm-size"
            )
