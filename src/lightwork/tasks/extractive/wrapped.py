"""Weights that were saved from inside a wrapper, and so carry its name before their own.

``DistributedDataParallel`` and ``DataParallel`` put ``module.`` before every name, a compiled
module ``_orig_mod.``; one may stand in the other.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

log = logging.getLogger("lightwork")

PREFIXES = ("module.", "_orig_mod.")


def unwrapped(names: Iterable[str]) -> dict[str, str]:
    """Each name -> the name without wrappers.

    A prefix goes only where all names begin with it, so that a part of a model that is itself
    called ``module`` keeps its name.
    """
    bare = {name: name for name in names}
    while prefix := next((prefix for prefix in PREFIXES if _all_begin(bare, prefix)), None):
        bare = {name: short.removeprefix(prefix) for name, short in bare.items()}
    return bare


def _all_begin(bare: dict[str, str], prefix: str) -> bool:
    return bool(bare) and all(
        short.startswith(prefix) and short != prefix for short in bare.values()
    )


@contextmanager
def without_wrapper(place: str) -> Iterator[str]:
    """The folder ``place``, or one for the time being with its weights by their own names.

    A hub name stays as it is. Tensors are read on the CPU, so that no rank takes memory on the
    device of another.
    """
    files = sorted(Path(place).glob("*.safetensors")) if Path(place).is_dir() else []
    bare = unwrapped(name for file in files for name in _names(file))
    if all(name == short for name, short in bare.items()):
        yield place
        return
    log.info("the weights in %s carry the prefix of a wrapper, which is left out", place)
    with TemporaryDirectory(prefix="lightwork-") as folder:
        shutil.copyfile(Path(place) / "config.json", Path(folder) / "config.json")
        weights: dict[str, Tensor] = {}
        for file in files:
            weights |= {bare[name]: value for name, value in load_file(file).items()}
        save_file(weights, Path(folder) / "model.safetensors", {"format": "pt"})
        yield folder


def _names(file: Path) -> list[str]:
    with safe_open(file, framework="pt", device="cpu") as opened:
        return list(opened.keys())
