"""Data sets of the Hugging Face hub: fetched once as JSON lines, then read like any other file.

A name is ``hub:OWNER/NAME``, with ``/CONFIG`` behind it where the data set has configurations, and
``#SPLIT`` where another split than ``train`` is meant; a split may be a slice such as
``validation[:10%]``. Code of a data set is never run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from lightwork.disk import only_one, replacing
from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import shown
from lightwork.tasks.extractive.formats.tables import COLUMNS

log = logging.getLogger("lightwork")

PREFIX = "hub:"
DEFAULT_SPLIT = "train"
_WORD = r"\w[\w.-]*"
_NAME = re.compile(rf"hub:({_WORD}/{_WORD})(?:/({_WORD}))?(?:#([\w.\[\]:%+-]+))?", re.ASCII)
_NEEDED = ("id", "question", "context")


def is_hub(name: str) -> bool:
    """Whether ``name`` names a data set of the hub, and no file."""
    return name.startswith(PREFIX)


def fetch(name: str, cache: Path) -> Path:
    """The file with the rows of the data set ``name``, which is fetched unless it is in ``cache``.

    What was fetched once stays as it is, whatever happens on the hub; deleting the file fetches it
    again. Raises ``DataError`` for a name that is none, a data set that cannot be had (unknown,
    closed, or no network), one without the columns of questions, and a cache without room.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise DataError(
            f"{shown(name, 100)!r} names no data set of the hub; expected "
            "hub:OWNER/NAME[/CONFIG][#SPLIT], such as hub:rajpurkar/squad_v2#validation"
        )
    target = cache / "hub" / _file_name(name)
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with only_one(target.with_name(f"{target.name}.lock"), log.info):
            if not target.exists():
                _download(name, match, target)
    except OSError as error:
        raise DataError(
            f"{name}: cannot write {target} ({error.strerror or error}); "
            "point data.cache to a folder with room that you may write to"
        ) from None
    return target


def on_disk(files: Sequence[Path], cache: Path) -> list[Path]:
    """The files as they are; for a name of the hub, the file in ``cache`` that holds its rows."""
    return [fetch(str(file), cache) if is_hub(str(file)) else file for file in files]


def _download(name: str, match: re.Match[str], target: Path) -> None:
    path, config, split = match.groups()
    # Beside the target, since the folder for temporary files is often small.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        _write(name, _loaded(name, path, config, split, scratch), target)


def _write(name: str, rows: Any, target: Path) -> None:
    columns = list(rows.column_names)
    if any(key not in columns for key in _NEEDED):
        raise DataError(
            f"{name}: expected the columns id, question, context and answers, found "
            f"{', '.join(map(shown, columns[:8]))}"
        )
    with replacing(target) as beside, beside.open("w", encoding="utf-8") as file:
        for row in rows.select_columns([key for key in COLUMNS if key in columns]):
            file.write(_line(name, row))


def _file_name(name: str) -> str:
    """Readable, and another one for every name."""
    words = re.sub(r"[^\w.]+", "-", name.removeprefix(PREFIX)).strip("-.")
    return f"{words[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.jsonl"


def _loaded(name: str, path: str, config: str | None, split: str | None, scratch: str) -> Any:
    """The table of the data set; what is downloaded and converted for it lies in ``scratch``."""
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise DataError(
            f"{name}: data sets of the hub need a package that is not installed; "
            "install it with: pip install 'lightwork[tables]'"
        ) from None
    if Path(path).exists():  # it would be read in the place of the data set
        raise DataError(f"{name}: {path} is also a folder here; start from another folder")
    options: dict[str, Any] = {"split": split or DEFAULT_SPLIT, "cache_dir": scratch}
    if "trust_remote_code" in signature(datasets.load_dataset).parameters:
        options["trust_remote_code"] = False  # also where an environment variable says otherwise
    known = (OSError, ValueError, RuntimeError, KeyError, datasets.exceptions.DatasetsError)
    try:
        with _quiet(datasets):
            return datasets.load_dataset(path, config, **options)
    except known as error:
        told = shown(" ".join(str(error).split()), 200)
        raise DataError(
            f"{name}: the hub gave no such data set ({told}); check the name and the network, or "
            "name a file on this machine"
        ) from None


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Without progress bars, retries told one by one, and counting of downloads."""
    hub = import_module("huggingface_hub")
    changed: list[tuple[Any, str, bool]] = [
        (datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", False),
        (hub.constants, "HF_HUB_DISABLE_TELEMETRY", True),
    ]
    before = [getattr(place, key, None) for place, key, _ in changed]
    loggers = [logging.getLogger(key) for key in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bars = [part for part in (datasets.utils, hub.utils) if not part.are_progress_bars_disabled()]
    try:
        for part in bars:
            part.disable_progress_bars()
        for place, key, value in changed:
            setattr(place, key, value)
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for part in bars:
            part.enable_progress_bars()
        for (place, key, _), old in zip(changed, before, strict=True):
            setattr(place, key, old)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _line(name: str, row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False) + "\n"
    except (TypeError, ValueError):
        raise DataError(f"{name}: a row holds values that are neither text nor numbers") from None
