"""What makes two runs the same run: the identity settings and the content of the training data."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from lightwork.errors import SettingsError
from lightwork.settings.conversion import is_hub
from lightwork.settings.describe import fields, keys, kind
from lightwork.settings.schema import Settings

_PIECE_BYTES = 1 << 20
_UNKNOWN = "(unknown there)"


def identity(settings: Settings) -> dict[str, Any]:
    """The identity settings as ``section.key`` -> JSON value.

    The training files stand as the SHA-256 of their bytes: a moved file is the same run, a changed
    one another. A data set of the hub stands as its name. Raises SettingsError for a file that
    cannot be read.
    """
    values = settings.model_dump(mode="json")
    flat: dict[str, Any] = {}
    for name in keys(Settings):
        section, _, key = name.partition(".")
        if kind(Settings, name) == "identity":
            flat[name] = values[section][key]
    flat["data.train"] = [_digest(path) for path in settings.data.train]
    return flat


def identity_hash(values: dict[str, Any]) -> str:
    """Eight hex digits that stand for ``values``.

    Settings at their default do not count, so a run keeps its name when a later version knows more
    settings.
    """
    chosen = {name: value for name, value in values.items() if value != default_of(name)}
    text = json.dumps(chosen, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """How identity ``b`` differs from ``a``, a line for each setting; empty when it does not.

    A setting that one of them does not know, since another version wrote it, has its default there.
    """
    lines = []
    for name in dict.fromkeys([*a, *b]):
        if a.get(name, default_of(name)) == b.get(name, default_of(name)):
            continue
        if name == "data.train":
            lines.append("data.train: the training files have another content")
        else:
            lines.append(f"{name}: {_shown(a, name)} became {_shown(b, name)}")
    return lines


def default_of(name: str) -> Any:
    """The default of a setting; of a name that this version does not know, something unequal."""
    field = fields(Settings).get(name)
    return _UNKNOWN if field is None or field.is_required() else field.default


def _shown(values: dict[str, Any], name: str) -> str:
    value = values.get(name, default_of(name))
    return "null" if value is None else str(value)


def _digest(path: Path) -> str:
    if is_hub(path):
        return str(path)
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
    except OSError as error:
        raise SettingsError(f"data.train: {path} cannot be read: {error.strerror}") from None
    return digest.hexdigest()
