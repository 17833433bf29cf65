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
    target = Path(path).expanduser()
    if not callable(content) and target.suffix != ".safetensors":
        raise ValueError(
            f"tensors are written as a .safetensors file, so the path cannot be {target}; give "
            "another name, or a function that writes what you want"
        )
    problem, cause = None, None
    if group.rank == 0:
        try:
            with replacing(target) as new:
                _write(new, content)
        except Exception as error:  # noqa: BLE001 - told to all ranks, who stop together
            problem, cause = f"{type(error).__name__}: {error}", error
    problem = group.gather_json(problem)[0]
    if problem is not None:
        raise RunError(f"cannot save {target} ({problem}); what was there is untouched") from cause


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
