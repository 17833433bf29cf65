"""Files and folders that are whole or not there: written beside their place, then moved to it."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

SILENCE_S = 3.0
"""How long a wait for another process, often this run's own rank, is not worth a word."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives a path beside ``target`` to write a file or a folder at, which then becomes ``target``.

    What was there before stays until the new one is on the disk, and stays for good when writing
    fails. One process at a time may write to the same target.
    """
    new, old = (target.with_name(f".{target.name}.{word}") for word in ("part", "old"))
    target.parent.mkdir(parents=True, exist_ok=True)
    remove(new)  # left by a process that was killed
    try:
        yield new
        sync_tree(new)
        _move(new, target, old)
    except BaseException:
        remove(new)  # it may be what fills the disk
        raise
    finally:
        if target.exists():
            remove(old)


def _move(new: Path, target: Path, old: Path) -> None:
    """A file replaces a file in one move; a folder first makes room."""
    in_two_moves = target.exists() and (new.is_dir() or target.is_dir())
    if in_two_moves:
        remove(old)
        target.rename(old)
    try:
        new.replace(target)
    except OSError:
        if in_two_moves:
            old.rename(target)
        raise
    sync(target.parent)


def try_lock(file: IO[str]) -> bool:
    """Whether this process now holds the lock of ``file``; the system lets go when it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_tree(path: Path) -> None:
    """Put a file, or a folder with all that is in it, on the disk."""
    for inside in path.rglob("*"):
        sync(inside)
    sync(path)


def sync(path: Path) -> None:
    """Put a file, or the entries of a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Delete a file, a link or a whole folder; nothing happens where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def only_one(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive lock on the file; the system drops it when the process dies.

    Where another process holds it, wait for as long as that takes, and ``say`` so.
    """
    with lock.open("a") as file:
        started_s = time.monotonic()
        while not try_lock(file):
            if time.monotonic() - started_s > SILENCE_S:
                say(f"another process is preparing {lock.stem}; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
                say(f"prepared by the other process after {time.monotonic() - started_s:.1f} s")
                break
            time.sleep(0.05)
        yield
