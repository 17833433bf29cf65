"""A settings file and ``section.key=value`` overrides become :class:`Settings`.

All mistakes are reported together, each in one line: what was given, where, what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lightwork.errors import SettingsError
from lightwork.settings.describe import allowed, fields, keys, sections
from lightwork.settings.paths import resolve_source
from lightwork.settings.schema import Settings
from lightwork.settings.yaml_text import Given, Tree, parse, parse_value, read_file

Model = TypeVar("Model", bound=BaseModel)
COMMAND_LINE = "command line"


def load_settings(path: Path | None, overrides: Sequence[str] = ()) -> Settings:
    """Settings of the file ``path``, or the defaults, with ``overrides`` on top; paths absolute.

    A relative path inside is looked for in the current folder first and then, if it is not there,
    in the folder of the settings file. Raises SettingsError with every mistake in it.
    """
    folder = None if path is None else path.expanduser().absolute().parent
    given: dict[str, str] = {}
    settings = read(Settings, path, overrides, {"folder": folder, "given": given})
    source = resolve_source(settings.model.source, folder)
    given[source] = settings.model.source
    model = settings.model.model_copy(update={"source": source})
    settings = settings.model_copy(update={"model": model})
    settings._given.update(given)
    return settings


def read(
    model: type[Model], path: Path | None, overrides: Sequence[str], context: dict[str, Any]
) -> Model:
    """The validated ``model``, whose fields are sections of plain values."""
    tree: Tree = {}
    complaints: list[str] = []
    if path is not None:
        tree, complaints = parse(read_file(path), str(path))
    values, wrong = _known(model, tree)
    complaints += wrong + _override(model, values, overrides)
    plain = {
        section: {key: given.value for key, given in group.items()}
        for section, group in values.items()
    }
    try:
        settings = model.model_validate(plain, context=context)
    except ValidationError as error:
        complaints += _explained(model, error.errors(include_url=False), values)
    if complaints:
        raise SettingsError(_together(complaints))
    return settings


Values = dict[str, dict[str, Given]]


def _known(model: type[BaseModel], tree: Tree) -> tuple[Values, list[str]]:
    """The tree without names that do not exist; the latter as complaints."""
    values: Values = {section: {} for section in sections(model)}
    wrong: list[str] = []
    for section, group in tree.items():
        if isinstance(group, Given):
            if section not in values:
                wrong.append(_unknown(model, section, group.where))
            elif group.value is not None:
                example = next(iter(sections(model)[section].model_fields))
                wrong.append(
                    f"{section} is a section and takes no value; given {group.shown} "
                    f"({group.where}); write settings such as '{example}:' below it"
                )
        elif section not in values:
            where = next((given.where for given in group.values()), "")
            wrong.append(_unknown(model, section, where))
        else:
            for key, given in group.items():
                if key in sections(model)[section].model_fields:
                    values[section][key] = given
                else:
                    wrong.append(_unknown(model, f"{section}.{key}", given.where))
    return values, wrong


def _override(model: type[BaseModel], values: Values, overrides: Sequence[str]) -> list[str]:
    """Put ``section.key=value`` texts into ``values``; those that cannot be are complaints."""
    wrong: list[str] = []
    seen: set[str] = set()
    for text in overrides:
        name, equals, value = text.partition("=")
        name = name.strip()
        section, _, key = name.partition(".")
        if not equals:
            wrong.append(f"{text} is not understood; write settings as section.key=value")
        elif name not in keys(model):
            wrong.append(_unknown(model, name, COMMAND_LINE))
        elif name in seen:
            wrong.append(f"{name} is given twice on the {COMMAND_LINE}")
        else:
            seen.add(name)
            try:
                values[section][key] = parse_value(value, COMMAND_LINE)
            except SettingsError as error:
                wrong.append(f"{name}: {error}")
    return wrong


def _unknown(model: type[BaseModel], name: str, where: str) -> str:
    """That ``name`` does not exist, with the nearest name that does."""
    known = keys(model) if "." in name else [*keys(model), *sections(model)]
    last = name.rpartition(".")[2]
    near = [key for key in keys(model) if key.rpartition(".")[2] == last]
    near = near or [key for key in keys(model) if _initials(key) == last]
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        short = {key.rpartition(".")[2]: key for key in reversed(keys(model))}
        near = [short[key] for key in difflib.get_close_matches(last, short, n=1, cutoff=0.7)]
    place = f" ({where})" if where else ""
    if near:
        return f"{name} is not a setting; did you mean {near[0]}?{place}"
    section = name.partition(".")[0]
    if section in sections(model):
        names = ", ".join(sections(model)[section].model_fields)
        return f"{name} is not a setting; {section} has {names}{place}"
    return f"{name} is not a setting; the sections are {', '.join(sections(model))}{place}"


def _initials(name: str) -> str:
    """``lr`` for train.learning_rate."""
    return "".join(word[:1] for word in name.rpartition(".")[2].split("_"))


def _explained(model: type[BaseModel], errors: list[ErrorDetails], values: Values) -> list[str]:
    """One line for each setting with an error, however many ways of reading it failed."""
    lines: dict[tuple[Any, ...], str] = {}
    for error in errors:
        place = error["loc"][:2]
        if len(place) < 2:
            lines.setdefault((place, error["msg"]), _remark(error))
        else:
            section, key = str(place[0]), str(place[1])
            line = _line(model, f"{section}.{key}", values[section].get(key), _remark(error))
            lines.setdefault(place, line)
    return list(lines.values())


def _line(model: type[BaseModel], name: str, given: Given | None, remark: str) -> str:
    if given is None:
        text = fields(model)[name].description
        return f"{name} is required ({text}); add it to the settings file or write {name}=…"
    choice = allowed(model, name)
    shown = given.shown if given.value is not None else f"{given.shown} (no value)"
    because = f"; {remark}" if remark else ""
    return f"{name} is {shown} ({given.where}); allowed: {choice}{because}"


def _remark(error: ErrorDetails) -> str:
    """Words of our own checks; pydantic's are left out, the allowed values say as much."""
    reason = error.get("ctx", {}).get("error")
    return str(reason) if isinstance(reason, ValueError) else ""


def _together(complaints: list[str]) -> str:
    if len(complaints) == 1:
        return complaints[0]
    lines = "\n".join(f"  {complaint}" for complaint in complaints)
    return f"{len(complaints)} mistakes in the settings:\n{lines}"
