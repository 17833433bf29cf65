"""Paths in the settings: where they lead, and what is wrong with them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path

from lightwork.errors import SettingsError
from lightwork.manifest import MANIFEST, problem_of
from lightwork.settings.conversion import absolute, exists, is_hub, located, one_or_list
from lightwork.settings.schema import Settings

PACKAGE = "package:"
SCRATCH = "scratch"
CONFIG = "config.json"


def resolve_source(source: str, folder: Path | None) -> str:
    """``model.source`` with the absolute path of its folder; hub names stay as they are."""
    if source == SCRATCH or source.startswith(PACKAGE):
        return source
    try:
        path = absolute(Path(source), folder)
    except ValueError as error:
        raise SettingsError(f"model.source: {source}: {error}") from None
    looks_local = source.startswith(("/", "./", "../", "~")) or source in (".", "..")
    return str(_model_folder(path)) if looks_local or exists(path) else source


def _model_folder(path: Path) -> Path:
    """The folder of a model that is meant by a checkpoint of a run, or by the file of its weights.

    Anything else stays, so that what is wrong with it is told.
    """
    if exists(path / MANIFEST) and exists(path / "model" / CONFIG):
        return path / "model"
    is_weights = path.name == "model.safetensors" and exists(path.parent / CONFIG)
    return path.parent if is_weights else path


def check_paths(settings: Settings) -> None:
    """Raise one SettingsError that names every path of ``settings`` that cannot work.

    Each line has the setting, the path as given, as an absolute path, and the reason. The cache
    folder is made where it is missing, since only that shows whether it can be made.
    """
    files = [("data.train", path) for path in settings.data.train]
    files += [("data.dev", path) for path in settings.data.dev or ()]
    checks = [(key, path, _file_reason(path)) for key, path in files]
    checks.append(("data.cache", settings.data.cache, folder_reason(settings.data.cache)))
    wrong = [
        f"{key}: {named(settings.as_given(path), path)} {reason}"
        for key, path, reason in checks
        if reason
    ]
    wrong += _source_complaint(settings)
    if wrong:
        raise SettingsError("\n".join(wrong))


def check_files(key: str, given: Sequence[str]) -> list[Path]:
    """The absolute paths of files that can be read; otherwise SettingsError naming ``key``."""
    paths: list[Path] = []
    wrong = []
    for text in given:
        try:
            found = [located(item, None) for item in one_or_list(text, None)]
        except ValueError as error:
            wrong.append(f"{key}: {text}: {error}" if text else f"{key}: {error}")
            continue
        for path in found:
            if reason := _file_reason(path):
                shown = text if len(found) == 1 else str(path)
                wrong.append(f"{key}: {named(shown, path)} {reason}")
        paths += found
    if wrong:
        raise SettingsError("\n".join(wrong))
    return paths


def named(given: str, path: Path) -> str:
    """A path as given, with its absolute form where that differs."""
    return given if given == str(path) else f"{given} ({path})"


def folder_reason(path: Path) -> str:
    """Why ``path`` cannot become a folder that is written to; empty where it can."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        return "is a file, not a folder"
    except NotADirectoryError:
        return "lies inside a file, not a folder"
    except OSError as error:
        return f"cannot be made: {error.strerror}"
    return "" if os.access(path, os.W_OK | os.X_OK) else "is not writable"


def _file_reason(path: Path) -> str:
    if is_hub(path):
        return ""  # only asking for it shows whether it is there
    try:
        if not path.exists():
            return "matches no file" if has_magic(str(path)) else "does not exist"
        if path.is_dir():
            return "is a folder, not a file"
        if path.is_file() and path.stat().st_size == 0:
            return "is empty"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if os.access(path, os.R_OK) else "is not readable"


def _source_complaint(settings: Settings) -> list[str]:
    source = settings.model.source
    if source.startswith(PACKAGE):
        reason = _package_reason(source.removeprefix(PACKAGE))
        return [f"model.source: {source}: {reason}"] if reason else []
    if not Path(source).is_absolute():
        return []
    path = Path(source)
    label = f"model.source: {named(settings.as_given(source), path)}"
    if not exists(path):
        return [f"{label} does not exist"]
    if not path.is_dir():
        return [f"{label} is a file; give the folder of a model"]
    if not (path / CONFIG).is_file():
        return [f"{label} has no {CONFIG} inside"]
    wrong = problem_of(path.parent) if exists(path.parent / MANIFEST) else None
    return [f"{label} is in a damaged checkpoint: {wrong}"] if wrong else []


def _package_reason(name: str) -> str:
    """Why ``NAME/folder`` leads to no model; looks for the package without importing it."""
    package, _, inside = name.partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        return f"the package {package or '(no name)'} is not installed"
    folder = Path(spec.submodule_search_locations[0]) / inside
    return "" if (folder / CONFIG).is_file() else f"{folder} has no {CONFIG} inside"
