"""The folder of a run: which one belongs to these settings, and what it says of itself.

``run.json`` holds ``{"format": 1, "run_id": hex, "identity": {...}, "shares": int | null,
"attempts": int, "total_steps": int | null, "threads": int | null, "precision": str | null}`` and is
replaced whole, never changed in place.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lightwork.errors import RunError
from lightwork.settings.identity import default_of, differences, identity, identity_hash
from lightwork.settings.paths import folder_reason, named
from lightwork.settings.schema import Settings
from lightwork.settings.seed import numbered
from lightwork.settings.writing import to_yaml

FORMAT = 1
RECORD = "run.json"
SETTINGS = "settings.yaml"
LOGS = "logs"
RUNS = Path("runs")
LONGER = ("train.epochs", "train.max_steps", "train.patience")
"""What ``--extend`` may raise; null is without end."""


@dataclass(frozen=True)
class RunRecord:
    """What ``run.json`` holds."""

    identity: dict[str, Any]
    shares: int | None = None
    """What ``train.shares: auto`` came to at the first start; null before it."""
    attempts: int = 0
    total_steps: int | None = None
    """Updates that are planned; null until a start has read the data."""
    threads: int | None = None
    """Compute threads of every rank, where their number must not depend on that of the ranks."""
    precision: Literal["fp32", "bf16", "fp16"] | None = None
    """What ``train.precision: auto`` came to at the first start; null before it."""
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))


def locate(given: Path) -> tuple[Path, Path | None]:
    """The settings file meant by ``given``, and the run folder where it lies in one.

    ``given`` is a settings file, a run folder, or the ``settings.yaml`` in a run folder.
    """
    path = given.expanduser()
    if path.is_dir() and (path / RECORD).is_file():
        return path / SETTINGS, path
    inside = path.name == SETTINGS and (path.parent / RECORD).is_file()
    return given, path.parent if inside else None


def run_folder(settings: Settings, name: str, given: Path | None) -> Path:
    """``given``, or ``runs/<name>-<short hash of the identity>``; nothing is made or checked."""
    if given is not None:
        return given.expanduser()
    return RUNS / f"{name}-{identity_hash(identity(settings))}"


def check_run(folder: Path, values: dict[str, Any], extend: bool = False) -> RunRecord | None:
    """The record of the run in ``folder``; None where a new run may begin there.

    Raises RunError where the folder holds a run of another identity or something else, is a file,
    or cannot be written. With ``extend`` there must be a run, and it may become longer.
    """
    label = f"the run folder {named(str(folder), folder.absolute())}"
    if extend and not (folder / RECORD).is_file():
        raise RunError(
            f"{label} holds no run that --extend could make longer; name one, as in: "
            "lightwork train runs/NAME --extend train.epochs=5"
        )
    known = folder.is_dir()
    reason = folder_reason(folder)
    if reason:
        raise RunError(f"{label} {reason}; choose another with --run")
    if not (folder / RECORD).is_file():
        if known and not all(_left_by_a_start(path.name) for path in folder.iterdir()):
            raise RunError(
                f"{label} holds files but no {RECORD}, so it is no run and is left alone; choose "
                "another with --run"
            )
        return None
    record = read_run(folder)
    if extend:
        record = _extended(record, values, label)
    changes = differences(record.identity, values)
    if changes and _only_longer(record.identity, values):
        raise RunError(
            f"{label} belongs to a shorter run ({'; '.join(changes)}); make it longer with "
            "--extend, or choose another folder with --run"
        )
    if changes:
        listed = "\n".join(f"  {line}" for line in changes)
        raise RunError(
            f"{label} belongs to a run with other settings:\n{listed}\n"
            "choose another folder with --run, or continue that run with the settings it has: "
            f"lightwork train {folder}"
        )
    return record


def _extended(record: RunRecord, values: dict[str, Any], label: str) -> RunRecord:
    """``record`` as long as ``values`` say; RunError where that is shorter."""
    known = _lengths(record.identity)
    for name, value in _lengths(values).items():
        if _end(value) < _end(known[name]):
            before = "no" if known[name] is None else str(known[name])
            todo = "leave it out" if known[name] is None else "give more"
            raise RunError(
                f"--extend makes a run longer, but {label} has {before} {name} and {value} was "
                f"given; {todo}"
            )
    return replace(record, identity={**record.identity, **_lengths(values)})


def _only_longer(before: dict[str, Any], values: dict[str, Any]) -> bool:
    known, now = _lengths(before), _lengths(values)
    longer = all(_end(known[name]) <= _end(now[name]) for name in LONGER)
    return longer and not differences(before, {**values, **known})


def _lengths(identity: dict[str, Any]) -> dict[str, Any]:
    return {name: identity.get(name, default_of(name)) for name in LONGER}


def _end(value: int | None) -> float:
    return math.inf if value is None else value


def _left_by_a_start(name: str) -> bool:
    """What a start that died before it wrote the record, or other ranks, may have put there."""
    return name in (".lock", LOGS) or name.startswith((RECORD, SETTINGS))


def seeded(settings: Settings, folder: Path | None) -> Settings:
    """``settings`` with a number for ``train.seed: random``: that of the run in ``folder``, or a
    new one where there is none.
    """
    try:
        return numbered(settings, read_run(folder).identity if folder is not None else {})
    except RunError:  # check_run says what is wrong, where anything is
        return numbered(settings, {})


def open_run(folder: Path, settings: Settings, extend: bool = False) -> RunRecord:
    """The record of the run in ``folder``, begun there if there is none; see :func:`check_run`.

    The settings are written beside it, so that the folder alone starts the same run again; a seed
    that was to be drawn is a number there.
    """
    settings = seeded(settings, folder)
    values = identity(settings)
    record = check_run(folder, values, extend)
    if record is None or extend:
        record = record or RunRecord(values)
        write_run(folder, record)
    _replace(folder / SETTINGS, to_yaml(settings))
    return record


def read_run(folder: Path) -> RunRecord:
    """The record in ``folder``; RunError where there is none that can be understood."""
    path = folder / RECORD
    try:
        values = json.loads(path.read_bytes())
        written = values.pop("format")
        if written != FORMAT:
            raise RunError(f"{path} has format {written}; this version of lightwork reads {FORMAT}")
        return RunRecord(**values)
    except (FileNotFoundError, NotADirectoryError):
        reason = f"holds no run: it has no {RECORD}" if folder.is_dir() else "is not a folder"
        raise RunError(
            f"the run folder {named(str(folder), folder.absolute())} "
            f"{reason if folder.exists() else 'does not exist'}"
        ) from None
    except OSError as error:
        raise RunError(f"{path.absolute()} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RunError(f"{path.absolute()} is damaged: it is not the record of a run") from None


def run_id_of(folder: Path) -> str | None:
    """The id of the run in ``folder``; None where no record can be read."""
    try:
        return read_run(folder).run_id
    except RunError:
        return None


def write_run(folder: Path, record: RunRecord) -> None:
    """Replace ``run.json``, so that a reader sees the old or the new one whole."""
    _replace(folder / RECORD, json.dumps({"format": FORMAT, **asdict(record)}, indent=1) + "\n")


def _replace(path: Path, text: str) -> None:
    """Write ``text`` beside ``path``, then move it there in one step."""
    try:
        handle, name = tempfile.mkstemp(prefix=path.name, suffix=".new", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)  # what did not come to its place
    except OSError as error:
        raise RunError(f"{path.absolute()} cannot be written: {error.strerror}") from None
