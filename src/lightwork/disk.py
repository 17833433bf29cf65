"""Files and folders that are whole or not there: written beside their place, then moved to it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

SILENCE_S = 3.0
"""How long a wait for another process, often this run's own rank, is not worth a word."""


class Storage:
    """All that a save does to a file system, one method for each: so that it can be noted down."""

    def make_folder(self, path: Path) -> None:
        """A new folder in one that is there."""
        path.mkdir()

    def write(self, path: Path, content: bytes) -> None:
        """A new file."""
        path.write_bytes(content)

    def fill(self, path: Path, make: Callable[[Path], object]) -> None:
        """A new file or folder that ``make`` puts at ``path``, in whatever way."""
        make(path)

    def sync(self, path: Path) -> None:
        """Put the content of a file, or the entries of a folder, on the disk."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file, a link or a folder another name in the same file system, in one move."""
        path.replace(target)

    def link(self, path: Path, leads_to: Path) -> None:
        """A new symbolic link."""
        path.symlink_to(leads_to)

    def remove(self, path: Path) -> None:
        """Delete a file, a link or a whole folder; nothing happens where there is none."""
        remove(path)


DISK = Storage()


@contextmanager
def replacing(
    target: Path, storage: Storage = DISK, check: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """Gives a path beside ``target`` to write a file or a folder at, which then becomes ``target``.

    What was there before stays until the new one is on the disk and ``check`` did not object, and
    stays for good when that fails. One process at a time may write to the same target.
    """
    new, old = (target.with_name(f".{target.name}.{word}") for word in ("part", "old"))
    make_folders(target.parent, storage)
    storage.remove(new)  # left by a process that was killed
    try:
        yield new
        sync_tree(new, storage)
        if check is not None:
            check(new)
        _move(new, target, old, storage)
    except BaseException:
        storage.remove(new)  # it may be what fills the disk
        raise
    finally:
        if target.exists():
            storage.remove(old)


def make_folders(path: Path, storage: Storage = DISK) -> None:
    """The folder ``path`` and those it lies in, where they are not there; each on the disk."""
    if path.is_dir():
        return
    make_folders(path.parent, storage)
    try:
        storage.make_folder(path)
    except FileExistsError:
        if not path.is_dir():  # otherwise another process was faster
            raise
    storage.sync(path.parent)


def _move(new: Path, target: Path, old: Path, storage: Storage) -> None:
    """A file replaces a file in one move; a folder first makes room."""
    in_two_moves = target.exists() and (new.is_dir() or target.is_dir())
    if in_two_moves:
        storage.remove(old)
        storage.rename(target, old)
    try:
        storage.rename(new, target)
    except OSError:
        if in_two_moves:
            storage.rename(old, target)
        raise
    storage.sync(target.parent)


def try_lock(file: IO[str]) -> bool:
    """Whether this process now holds the lock of ``file``; the system lets go when it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_tree(path: Path, storage: Storage = DISK) -> None:
    """Put a file, or a folder with all that is in it, on the disk."""
    for inside in path.rglob("*"):
        storage.sync(inside)
    storage.sync(path)


def forget(path: Path) -> None:
    """Let what memory holds of a file that is on the disk go, so that reading it reads the disk."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def remove(path: Path) -> None:
    """Delete a file, a link or a whole folder; nothing happens where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """A temporary folder. Those of the same kind whose processes were killed are removed first."""
    within = Path(tempfile.gettempdir())
    for path in within.glob(f"lightwork-{kind}-*"):
        owner = path.name.split("-")[2]
        if owner.isdecimal() and not _is_alive(int(owner)):
            shutil.rmtree(path, ignore_errors=True)  # of another user it stays
    with tempfile.TemporaryDirectory(prefix=f"lightwork-{kind}-{os.getpid()}-") as folder:
        yield Path(folder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


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
