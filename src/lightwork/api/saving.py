"""Rank 0 writes, the others hear whether it went well; what is there is always whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from lightwork.comm.group import Group
from lightwork.disk import replacing
from lightwork.errors import RunError

Content = Mapping[str, Tensor] | Callable[[Path], Any]


def save(group: Group, path: str | Path, content: Content) -> None:
    """Let rank 0 put ``content`` at ``path``, replacing what is there; called on every rank.

    Raises RunError on all ranks when it cannot be written; what was there before stays.
    """
    target = Path(path).expanduser().absolute()
    problem, cause = None, None
    if group.rank == 0:
        try:
            with replacing(target) as new:
                _write(new, content)
                _refuse_loss(target, new)
        except RunError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - told to all ranks, who stop together
            problem, cause = f"{type(error).__name__}: {error}", error
    problem = group.gather_json(problem)[0]
    if problem is not None:
        raise RunError(f"cannot save {path} ({problem}); what was there is untouched") from cause


def check_target(path: str | Path, content: Content) -> None:
    """Raise ValueError where tensors would get a name that does not say what they are."""
    if not callable(content) and Path(path).suffix != ".safetensors":
        raise ValueError(
            f"tensors are written as a .safetensors file, so the path cannot be {path}; give "
            "another name, or a function that writes what you want"
        )


def _refuse_loss(target: Path, new: Path) -> None:
    """RunError where ``target`` holds what ``new`` does not replace."""
    if not target.exists():
        return
    if target.is_dir() != new.is_dir():
        kinds = ("a folder", "a file") if target.is_dir() else ("a file", "a folder")
        raise RunError(f"there is {kinds[0]}, and {kinds[1]} would replace it; name another place")
    known = {path.relative_to(new) for path in new.rglob("*")}
    others = [p for path in target.rglob("*") if (p := path.relative_to(target)) not in known]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise RunError(
            f"the folder holds {others[0]}{more}, which this save does not write; name another "
            "folder, or move that away"
        )


def _write(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
        if not path.exists():
            raise FileNotFoundError(f"{content} wrote nothing at the path it was given, {path}")
        return
    storages: set[int] = set()
    tensors = {}
    for name, tensor in content.items():
        whole = tensor.detach().cpu().contiguous()
        # safetensors refuses two names of one storage, such as tied weights: each gets its own
        place = whole.untyped_storage().data_ptr()
        tensors[name] = whole.clone() if place in storages else whole
        storages.add(place)
    save_file(tensors, path)
