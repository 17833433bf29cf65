"""From the text of a setting to its value, where pydantic's own reading is too lenient or strict.

Each function takes text, or a value that already has its type, and raises ``ValueError`` with a
remark for people. Fractions and switches are left to pydantic.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

HUB = "hub:"
"""Begins the name of a data set of the Hugging Face hub, where a file could stand as well."""

MOST_STEPS = 50
"""Of a profile: a trace has megabytes for every step."""

_STEPS = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", re.ASCII)
_LEADING_ZERO = re.compile(r"[+-]?0[0-9_]*[0-9]")
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?", re.ASCII)
_SIZE = re.compile(r"([0-9.]+)\s*([kmg]?i?b)", re.ASCII | re.IGNORECASE)
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20}
_UNITS["gib"] = 1 << 30


def number(value: Any) -> Any:
    """Refuses ``012``, which some readers of YAML take for ten; pydantic reads all else."""
    if isinstance(value, str) and _LEADING_ZERO.fullmatch(value.strip()):
        meant = value.replace("_", "").strip().lstrip("+-0") or "0"
        raise ValueError(f"a leading zero could mean a base of eight; write {meant}")
    return value


def whole(value: Any) -> Any:
    """``384``, ``1_000``, ``384.0``, ``1e3`` are whole numbers; ``384.5`` and ``012`` are not."""
    if not isinstance(value, str):
        return value
    text = number(value).strip()
    if not _WHOLE.fullmatch(text):
        raise ValueError("")
    exact = Decimal(text.replace("_", ""))
    if exact != exact.to_integral_value():
        raise ValueError("")
    return int(exact)


def size_bytes(value: Any) -> Any:
    """Bytes as a whole number, or with a unit: ``8MiB`` is 8 x 2^20, ``25MB`` is 25 x 10^6."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return whole(value)
    try:
        amount = Decimal(match[1]) * _UNITS[match[2].lower()]
    except (InvalidOperation, KeyError):
        raise ValueError("") from None
    if amount != amount.to_integral_value():
        raise ValueError("it is not a whole number of bytes")
    return int(amount)


def list_of(value: Any) -> Any:
    """A single word stands for a list of one; of two alike, one is a mistake."""
    values = (value,) if isinstance(value, str) else value
    if isinstance(values, (tuple, list)) and len(set(values)) < len(values):
        raise ValueError("one is named twice")
    return values


def steps_of(text: str | None) -> range:
    """``20-25`` as the steps 20 … 25, and ``20`` as that one; none has none."""
    if text is None:
        return range(0)
    match = _STEPS.fullmatch(text.strip())
    if match is None:
        raise ValueError("")
    first, last = int(match[1]), int(match[2] or match[1])
    if first < 1:
        raise ValueError("the first step is 1")
    if last < first:
        raise ValueError(f"{last} comes before {first}")
    if last - first >= MOST_STEPS:
        raise ValueError(f"these are {last - first + 1} steps; at most {MOST_STEPS} are written")
    return range(first, last + 1)


def checked_steps(value: str) -> str:
    """The text, if it names steps."""
    steps_of(value)
    return value.strip()


def one_or_list(value: Any, info: ValidationInfo | None) -> Any:
    """A single value stands for a list of one, a pattern such as ``part-*.json`` for the files it
    matches, in the order of their names.
    """
    values = (value,) if isinstance(value, (str, Path)) else value
    if not isinstance(values, (tuple, list)):
        return values
    return tuple(path for item in values for path in _matching(item, info))


def _matching(value: Any, info: ValidationInfo | None) -> list[Any]:
    """The files of a pattern; what matches none, or is no pattern, as it is."""
    if not isinstance(value, (str, Path)) or is_hub(value) or not has_magic(str(value)):
        return [value]
    pattern = located(value, info)
    if exists(pattern):  # a file whose name only looks like a pattern
        return [value]
    folder: Path | None = ((info.context if info else None) or {}).get("folder")
    beside = [] if folder is None or Path(value).is_absolute() else [str(folder / value)]
    for text in (str(pattern), *beside):
        if found := sorted(Path(name) for name in glob(text, recursive=True)):  # noqa: PTH207
            return list(found)
    return [value]


def is_hub(value: str | Path) -> bool:
    """Whether this names a data set of the Hugging Face hub and no file."""
    return str(value).startswith(HUB)


def located(value: Any, info: ValidationInfo | None) -> Any:
    """An absolute path. Relative ones are looked for in the current folder, then beside the
    settings file, whose folder is ``info.context["folder"]``.

    What was written is noted in ``info.context["given"]``. A name of the hub stays as it is.
    """
    if not isinstance(value, (str, Path)):
        return value
    if not str(value).strip():
        raise ValueError("the path is empty")
    if is_hub(value):
        return Path(value)
    context: dict[str, Any] = (info.context if info else None) or {}
    path = absolute(Path(value), context.get("folder"))
    context.get("given", {})[str(path)] = str(value)
    return path


def absolute(path: Path, folder: Path | None) -> Path:
    """``path`` from the current folder, or from ``folder`` if only that has it; ``~`` expanded."""
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ValueError("there is no such user's home folder") from None
    here = Path.cwd() / path
    if folder is not None and not exists(here) and exists(folder / path):
        here = folder / path
    return _without_dots(here)


def exists(path: Path) -> bool:
    """Whether ``path`` is there; one that cannot be looked up, being too long, is not."""
    try:
        return path.exists()
    except OSError:
        return False


def _without_dots(path: Path) -> Path:
    """Links keep their names, so messages name what people see."""
    return path.resolve() if ".." in path.parts else path
