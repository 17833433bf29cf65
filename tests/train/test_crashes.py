"""Whatever a crash loses of a save, the run goes on; and one missing sync would be found out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from lightwork.errors import CheckpointError
from lightwork.manifest import problem_of
from lightwork.train.checkpoint import Checkpoints, Part
from tests.train.crashes import Noted, Promised, Synced, Tree, change, crashes
from tests.train.test_checkpoint import parts


def saves(checkpoints: Checkpoints, noted: Noted) -> None:
    """Checkpoints push each other out, the best one moves, one takes the place of a damaged one."""
    for step in range(1, 6):
        if step == 4:
            checkpoints.write(step, parts(step))
            noted.remove(checkpoints.at(step) / "state.json")
            noted.sync(checkpoints.at(step))
        checkpoints.save(step, parts(step), keep=1)
        noted.promise(step)
        if step in (2, 3, 5):
            checkpoints.point_best(step)
            noted.promise(step, best=True)


def wrong_with(left: Path, promised: Sequence[Promised]) -> str | None:
    """What of the promises does not hold for what a crash has left."""
    checkpoints = Checkpoints(left, "r")
    last = max((p.step for p in promised if not p.best), default=0)
    try:
        found = checkpoints.newest(lambda text: None)
    except CheckpointError as error:
        return str(error)
    step = int(found.name.removeprefix("step-")) if found else 0
    if step < last:
        return f"step {last} was saved, found is {step}"
    pointed = [p.step for p in promised if p.best]
    if pointed:
        best = checkpoints.best()
        if best is None or problem_of(best) is not None:
            return f"step {pointed[-1]} was the best, now there is {best}"
    return None


def first_failure(noted: Noted, folder: Path) -> str | None:
    """The first state after a crash in which a promise does not hold, in words."""
    known: set[tuple[object, ...]] = set()
    before: Tree = {}
    folder.mkdir()
    for words, promised, tree in crashes(noted):
        state = (tuple(promised), _state(tree))
        if state in known:
            continue
        known.add(state)
        change(folder, before, tree)
        before = tree
        wrong = wrong_with(folder, promised)
        if wrong is not None:
            return f"{words}: {wrong}"
    assert len(known) > 500, "too few states for a test"
    return None


def _state(tree: Tree) -> tuple[object, ...]:
    return tuple(sorted(tree.items()))


def played(noted: Noted, folder: Path, kind: type[Checkpoints] = Checkpoints) -> str | None:
    noted.root.mkdir()
    saves(kind(noted.root, "r", noted), noted)
    return first_failure(noted, folder)


def test_after_any_crash_a_checkpoint_verifies(tmp_path: Path) -> None:
    assert played(Noted(tmp_path / "run"), tmp_path / "left") is None


class NoFileSynced(Noted):
    def sync(self, path: Path) -> None:
        if not path.is_file():
            super().sync(path)


class NoFolderSynced(Noted):
    def sync(self, path: Path) -> None:
        if path.is_file():
            super().sync(path)


class NoInnerFolderSynced(Noted):
    """Only the folder of all checkpoints, and the run's own."""

    def sync(self, path: Path) -> None:
        if path.is_file() or path.name in ("checkpoints", self.root.name):
            super().sync(path)


class PublishedUnsynced(Noted):
    """The folder of all checkpoints is not synced after the rename."""

    def sync(self, path: Path) -> None:
        if path.name != "checkpoints":
            super().sync(path)


class BestUnsynced(Noted):
    """The folder of the run is synced only for the folder of checkpoints that was made in it."""

    def sync(self, path: Path) -> None:
        if path != self.root or not (path / "best").exists():
            super().sync(path)


class ManifestUnsynced(Noted):
    def sync(self, path: Path) -> None:
        if path.name != "manifest.json":
            super().sync(path)


class RenamedBeforeSynced(Noted):
    """What is in a checkpoint is put on the disk when it is published already."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._late: list[int] = []

    def sync(self, path: Path) -> None:
        if path.name.endswith(".part") or any(p.name.endswith(".part") for p in path.parents):
            self._late.append(self._inodes[path])
        else:
            super().sync(path)

    def rename(self, path: Path, target: Path) -> None:
        super().rename(path, target)
        self.notes += [Synced(inode) for inode in self._late]
        self._late = []


@pytest.mark.parametrize(
    "storage",
    [
        NoFileSynced, NoFolderSynced, NoInnerFolderSynced, PublishedUnsynced, BestUnsynced,
        ManifestUnsynced, RenamedBeforeSynced,
    ],
)  # fmt: skip
def test_a_missing_or_late_sync_would_be_found(tmp_path: Path, storage: type[Noted]) -> None:
    assert played(storage(tmp_path / "run"), tmp_path / "left") is not None


class RoomFirst(Checkpoints):
    """Old ones are deleted to make room for the new one."""

    def save(self, step: int, parts: Iterable[Part], keep: int) -> None:
        for _, path in self.all():
            self._storage.remove(path)
        self.write(step, parts)


class BestForgotten(Checkpoints):
    """Rotation does not look where ``best`` leads."""

    def best(self) -> Path | None:
        return None


@pytest.mark.parametrize("kind", [RoomFirst, BestForgotten])
def test_deleting_too_early_or_too_much_would_be_found(
    tmp_path: Path, kind: type[Checkpoints]
) -> None:
    assert played(Noted(tmp_path / "run"), tmp_path / "left", kind) is not None
