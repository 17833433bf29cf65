"""A file system that loses what was not put on the disk, played from what a Storage noted down.

What a crash leaves is not what a program did last. The content of a file is safe once that file was
synced, a new, moved or deleted entry of a folder once that folder was; of everything else each
piece may be there or not, whatever came first. One move of an entry is whole or not at all.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightwork.disk import Storage

Tree = dict[str, bytes | str | None]
"""Path -> content of a file, where a link leads, or None for a folder."""
RANDOM_SUBSETS = 6
ALL_SUBSETS_OF = 4
"""Of so many pieces that may be lost, every subset is tried."""


@dataclass(frozen=True)
class Content:
    """A file gets its content."""

    inode: int
    content: bytes


@dataclass(frozen=True)
class Entries:
    """Names in a folder lead to other inodes, or to none any more."""

    folder: int
    changes: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Synced:
    """A file or a folder is on the disk."""

    inode: int


@dataclass(frozen=True)
class Promised:
    """A save is done: from here on, this step or a later one must be found; or as the best."""

    step: int
    best: bool = False


Note = Content | Entries | Synced | Promised


class Noted(Storage):
    """Does everything below ``root``, and notes it down; only syncs are not done."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[Note] = []
        self.folders = {0}
        self.links: dict[int, str] = {}
        self._inodes = {root: 0}
        self._next = itertools.count(1)

    def promise(self, step: int, best: bool = False) -> None:
        """What ``step`` stands for has been saved, or pointed to as the best."""
        self.notes.append(Promised(step, best))

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self._note_new(path)

    def write(self, path: Path, content: bytes) -> None:
        super().write(path, content)
        self._note_new(path)

    def fill(self, path: Path, make: Callable[[Path], object]) -> None:
        super().fill(path, make)
        for made in (path, *sorted(path.rglob("*"))):
            if made not in self._inodes:
                self._note_new(made)

    def sync(self, path: Path) -> None:
        self.notes.append(Synced(self._inodes[path]))

    def rename(self, path: Path, target: Path) -> None:
        super().rename(path, target)
        assert path.parent == target.parent
        inode = self._inodes[path]
        for inside in [p for p in self._inodes if p == path or path in p.parents]:
            self._inodes[target / inside.relative_to(path)] = self._inodes.pop(inside)
        self._note(path.parent, (path.name, None), (target.name, inode))

    def link(self, path: Path, leads_to: Path) -> None:
        super().link(path, leads_to)
        self._note_new(path)

    def remove(self, path: Path) -> None:
        if not path.exists() and not path.is_symlink():
            return
        inside = [] if path.is_symlink() else sorted(path.rglob("*"), reverse=True)
        for gone in (*inside, path):
            self._note(gone.parent, (gone.name, None))
            del self._inodes[gone]
        super().remove(path)

    def _note_new(self, path: Path) -> None:
        inode = self._inodes[path] = next(self._next)
        self._note(path.parent, (path.name, inode))
        if path.is_symlink():
            self.links[inode] = str(path.readlink())
        elif path.is_dir():
            self.folders.add(inode)
        else:
            self.notes.append(Content(inode, path.read_bytes()))

    def _note(self, folder: Path, *changes: tuple[str, int | None]) -> None:
        self.notes.append(Entries(self._inodes[folder], changes))


def crashes(noted: Noted) -> Iterator[tuple[str, list[Promised], Tree]]:
    """After every note: in words what is lost, what was promised, and what is left."""
    draw = random.Random(5)
    for count in range(len(noted.notes) + 1):
        notes = noted.notes[:count]
        promised = [note for note in notes if isinstance(note, Promised)]
        pending = _pending(notes)
        for lost in _subsets(pending, draw):
            for kept_bytes in (0, 7, None):
                words = f"after {count} notes, without {sorted(lost)} ({kept_bytes} bytes)"
                yield words, promised, _left(noted, notes, lost, kept_bytes)


def _pending(notes: Sequence[Note]) -> list[int]:
    """The places of notes that no sync has made safe."""
    pending: dict[int, list[int]] = {}
    for place, note in enumerate(notes):
        if isinstance(note, Synced):
            pending.pop(note.inode, None)
        elif isinstance(note, Content):
            pending.setdefault(note.inode, []).append(place)
        elif isinstance(note, Entries):
            pending.setdefault(note.folder, []).append(place)
    return sorted(place for places in pending.values() for place in places)


def _subsets(pending: list[int], draw: random.Random) -> set[frozenset[int]]:
    """Which pieces are lost: all subsets of a few; of many, the telling ones and some at random."""
    if len(pending) <= ALL_SUBSETS_OF:
        sizes = range(len(pending) + 1)
        return {frozenset(lost) for n in sizes for lost in itertools.combinations(pending, n)}
    every = frozenset(pending)
    alone = {frozenset([place]) for place in pending}
    some = {frozenset(draw.sample(pending, draw.randrange(2, len(pending)))) for _ in
            range(RANDOM_SUBSETS)}  # fmt: skip
    return {frozenset(), every} | alone | {every - one for one in alone} | some


def _left(
    noted: Noted, notes: Sequence[Note], lost: frozenset[int], kept_bytes: int | None
) -> Tree:
    """What is on the disk. Of a lost content ``kept_bytes`` are there; None: half of it."""
    contents: dict[int, bytes] = {}
    entries: dict[int, dict[str, int]] = {}
    for place, note in enumerate(notes):
        if isinstance(note, Content):
            kept = len(note.content) // 2 if kept_bytes is None else kept_bytes
            contents[note.inode] = note.content[:kept] if place in lost else note.content
        elif isinstance(note, Entries) and place not in lost:
            names = entries.setdefault(note.folder, {})
            for name, inode in note.changes:
                names.pop(name, None)
                if inode is not None:
                    names[name] = inode
    tree: Tree = {}

    def walk(folder: int, prefix: str) -> None:
        for name, inode in entries.get(folder, {}).items():
            if inode in noted.folders:
                tree[f"{prefix}{name}"] = None
                walk(inode, f"{prefix}{name}/")
            elif inode in noted.links:
                tree[f"{prefix}{name}"] = noted.links[inode]
            else:
                tree[f"{prefix}{name}"] = contents.get(inode, b"")

    walk(0, "")
    return tree


def change(root: Path, before: Tree, after: Tree) -> None:
    """Make of ``root``, which holds the tree ``before``, the tree ``after``."""
    for name in sorted(before, reverse=True):  # what is in a folder comes before the folder
        if name in after and after[name] == before[name]:
            continue
        if before[name] is None:
            (root / name).rmdir()
        else:
            (root / name).unlink()
    for name, what in after.items():
        if name in before and what == before[name]:
            continue
        if what is None:
            (root / name).mkdir()
        elif isinstance(what, str):
            (root / name).symlink_to(what)
        else:
            (root / name).write_bytes(what)
