"""Checkpoints: parts, a manifest written last, published by a rename. What verifies is one.

checkpoints/step-000120/
    model/                   a plain Hugging Face folder
    optimizer.safetensors    <parameter>/<slot> -> tensor
    state.json               position, scores, settings
    manifest.json            size and SHA-256 of every file above, and of itself
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from lightwork.disk import DISK, Storage, forget, replacing
from lightwork.errors import CheckpointError
from lightwork.manifest import MANIFEST, describe, manifest, problem_of, read_manifest

_NAME = re.compile(r"step-(\d{6,})")
_LEFT = ".step-*"
"""What a process that was killed in the middle of a save, or of a removal, leaves."""


@dataclass(frozen=True)
class Part:
    """One piece of a checkpoint and how it is written: tensors, JSON, or files of its own."""

    name: str
    content: Mapping[str, Tensor] | Callable[[Path], None] | dict[str, Any]
    """Tensors become ``name.safetensors``, a function is given the folder ``name``, the rest
    becomes ``name.json``."""

    def write(self, folder: Path, storage: Storage) -> None:
        """Write this part into the checkpoint ``folder``."""
        if callable(self.content):
            storage.make_folder(folder / self.name)
            storage.fill(folder / self.name, self.content)
        elif self.content and all(isinstance(v, Tensor) for v in self.content.values()):
            tensors = {key: t.detach().cpu().contiguous() for key, t in self.content.items()}
            storage.fill(folder / f"{self.name}.safetensors", partial(save_file, tensors))
        else:
            text = json.dumps(self.content, indent=2, ensure_ascii=False) + "\n"
            storage.write(folder / f"{self.name}.json", text.encode())


class Checkpoints:
    """The checkpoints of one run folder. Only one rank writes; every rank may read."""

    def __init__(self, run: Path, run_id: str | None = None, storage: Storage = DISK) -> None:
        """``run_id``: that of the run, by which checkpoints of others are told apart."""
        self._run = run
        self._run_id = run_id
        self._storage = storage
        self.folder = run / "checkpoints"

    def at(self, step: int) -> Path:
        """Where the checkpoint of ``step`` lies, or would."""
        return self.folder / f"step-{step:06d}"

    def save(self, step: int, parts: Iterable[Part], keep: int) -> None:
        """:meth:`write`, and then :meth:`rotate`: nothing is deleted for what does not verify."""
        self.write(step, parts)
        self.rotate(step, keep)

    def write(self, step: int, parts: Iterable[Part]) -> Path:
        """Write, verify and publish the checkpoint of ``step``; an older one of it gives way."""
        target = self.at(step)
        try:
            with replacing(target, self._storage, partial(_read_back, target)) as folder:
                self._storage.make_folder(folder)
                for part in parts:
                    part.write(folder, self._storage)
                content = manifest(describe(folder), step=step, run=self._run_id)
                self._storage.write(folder / MANIFEST, content)
        except (OSError, SafetensorError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise CheckpointError(
                f"cannot write the checkpoint {target} ({reason}); older ones are untouched. "
                "Make room or choose another --run folder."
            ) from error
        return target

    def all(self) -> list[tuple[int, Path]]:
        """(step, folder) of everything that looks like a checkpoint, oldest first."""
        if not self.folder.is_dir():
            return []
        found = [(m, path) for path in self.folder.iterdir() if (m := _NAME.fullmatch(path.name))]
        return sorted((int(match[1]), path) for match, path in found if path.is_dir())

    def newest(self, say: Callable[[str], None]) -> Path | None:
        """The newest one that verifies, or None when the run has none at all.

        ``say`` is told of damaged ones that were passed over. Raises CheckpointError when there
        are some but none verifies: a run never starts afresh without being asked to.
        """
        steps = self.all()
        for _, path in reversed(steps):
            wrong = problem_of(path)
            if wrong is not None:
                say(f"the checkpoint {path.name} is damaged and passed over: {wrong}")
            elif not self._is_own(path):
                say(f"the checkpoint {path.name} is of another run and passed over")
            else:
                return path
        if steps:
            verb = "does not verify" if len(steps) == 1 else "verifies"
            raise CheckpointError(
                f"{_none_of(len(steps))} in {self.folder} {verb}. To start afresh, choose another "
                "--run folder or delete this one."
            )
        return None

    def best(self) -> Path | None:
        """The checkpoint with the best score, if there is one."""
        pointer = self._run / "best"
        return pointer.resolve() if pointer.exists() else None

    def point_best(self, step: int) -> None:
        """Let ``best`` point to the checkpoint of ``step``; on the disk when this returns."""
        temporary = self._run / ".best.part"
        try:
            self._storage.remove(temporary)
            self._storage.link(temporary, self.at(step).relative_to(self._run))
            self._storage.rename(temporary, self._run / "best")
            self._storage.sync(self._run)
        except OSError as error:
            raise CheckpointError(
                f"cannot let {self._run / 'best'} point to step {step} ({error.strerror or error})"
            ) from error

    def rotate(self, newest_step: int, keep: int) -> None:
        """Delete all but the best one and the ``keep`` newest up to ``newest_step``.

        Later steps are of a timeline that ended in damage: had one of them verified, the run would
        have gone on from there. Counting them as newest would delete what was just written. What
        says that it is of another run is neither counted nor deleted.
        """
        best = self.best()
        own = [(step, path) for step, path in self.all() if self._is_own(path)]
        kept = [path for step, path in own if step <= newest_step][-keep:]
        try:
            for _, path in own:
                if path not in kept and (best is None or path.resolve() != best):
                    # Under its own name it is whole until it is gone.
                    with suppress(FileNotFoundError):  # somebody else deleted it
                        self._storage.rename(path, path.with_name(f".{path.name}.old"))
            for path in sorted(self.folder.glob(_LEFT)):
                self._storage.remove(path)
        except OSError as error:
            raise CheckpointError(
                f"cannot delete old checkpoints in {self.folder} ({error.strerror or error}); see "
                "who may write there"
            ) from error

    def _is_own(self, path: Path) -> bool:
        """Whether it is of this run, as far as it is known."""
        try:
            run_id = read_manifest(path).get("run")
        except (OSError, ValueError):
            return True
        return None in (run_id, self._run_id) or run_id == self._run_id


def _none_of(count: int) -> str:
    return "the only checkpoint" if count == 1 else f"none of the {count} checkpoints"


def _read_back(target: Path, folder: Path) -> None:
    """CheckpointError where what was written for ``target`` in ``folder`` does not verify."""
    for path in folder.rglob("*"):
        if path.is_file():
            forget(path)
    wrong = problem_of(folder)
    if wrong is not None:
        raise CheckpointError(
            f"the checkpoint {target} was written, but when it was read back, {wrong}. It was not "
            "kept, and older ones are untouched. Suspect the disk; choose a --run folder elsewhere."
        )


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The facts in ``state.json``."""
    state: dict[str, Any] = json.loads((checkpoint / "state.json").read_bytes())
    return state


def read_tensors(checkpoint: Path, part: str) -> dict[str, Tensor]:
    """The tensors of a part, on the CPU; empty if the part has none."""
    path = checkpoint / f"{part}.safetensors"
    return load_file(path) if path.exists() else {}
