"""Checkpoints: parts, a manifest written last, published by a rename. What verifies is one.

checkpoints/step-000120/
    model/                   a plain Hugging Face folder
    optimizer.safetensors    <parameter>/<slot> -> tensor
    state.json               position, scores, settings
    manifest.json            size and SHA-256 of every file above
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from lightwork.data.once import file_digest
from lightwork.disk import remove, replacing
from lightwork.errors import CheckpointError

FORMAT = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True)
class Part:
    """One piece of a checkpoint and how it is written: tensors, JSON, or files of its own."""

    name: str
    content: Mapping[str, Tensor] | Callable[[Path], None] | dict[str, Any]
    """Tensors become ``name.safetensors``, a function is given the folder ``name``, the rest
    becomes ``name.json``."""

    def write(self, folder: Path) -> None:
        """Write this part into the checkpoint ``folder``."""
        if callable(self.content):
            (folder / self.name).mkdir()
            self.content(folder / self.name)
        elif self.content and all(isinstance(v, Tensor) for v in self.content.values()):
            tensors = {key: t.detach().cpu().contiguous() for key, t in self.content.items()}
            save_file(tensors, folder / f"{self.name}.safetensors")
        else:
            text = json.dumps(self.content, indent=2, ensure_ascii=False)
            (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")


class Checkpoints:
    """The checkpoints of one run folder. Only one rank writes; every rank may read."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.folder = run / "checkpoints"

    def at(self, step: int) -> Path:
        """Where the checkpoint of ``step`` lies, or would."""
        return self.folder / f"step-{step:06d}"

    def write(self, step: int, parts: Sequence[Part]) -> Path:
        """Write and publish the checkpoint of ``step``; an older one of that step gives way."""
        target = self.at(step)
        try:
            with replacing(target) as folder:
                folder.mkdir()
                for part in parts:
                    part.write(folder)
                manifest = {"format": FORMAT, "step": step, "files": _describe(folder)}
                (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
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
            if wrong is None:
                return path
            say(f"the checkpoint {path.name} is damaged and passed over: {wrong}")
        if steps:
            raise CheckpointError(
                f"none of the {len(steps)} checkpoints in {self.folder} verifies. To start afresh, "
                "choose another --run folder or delete this one."
            )
        return None

    def best(self) -> Path | None:
        """The checkpoint with the best score, if there is one."""
        pointer = self._run / "best"
        return pointer.resolve() if pointer.exists() else None

    def point_best(self, step: int) -> None:
        """Let ``best`` point to the checkpoint of ``step``."""
        temporary = self._run / ".best.part"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self.at(step).relative_to(self._run))
        temporary.replace(self._run / "best")

    def rotate(self, newest_step: int, keep: int) -> None:
        """Delete all but the best one and the ``keep`` newest up to ``newest_step``.

        Later steps are of a timeline that ended in damage: had one of them verified, the run would
        have gone on from there. Counting them as newest would delete what was just written.
        """
        best = self.best()
        kept = [path for step, path in self.all() if step <= newest_step][-keep:]
        for _, path in self.all():
            if path not in kept and (best is None or path.resolve() != best):
                remove(path)


def problem_of(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None when every file verifies."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, this version reads {FORMAT}"
        for name, (size, digest) in manifest["files"].items():
            path = checkpoint / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size} bytes instead of {size}"
            if file_digest(path) != digest:
                return f"the content of {name} has changed"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    return None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The facts in ``state.json``."""
    state: dict[str, Any] = json.loads((checkpoint / "state.json").read_bytes())
    return state


def read_tensors(checkpoint: Path, part: str) -> dict[str, Tensor]:
    """The tensors of a part, on the CPU; empty if the part has none."""
    path = checkpoint / f"{part}.safetensors"
    return load_file(path) if path.exists() else {}


def _describe(folder: Path) -> dict[str, tuple[int, str]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, file_digest(path))
        for path in files
    }
