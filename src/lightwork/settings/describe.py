"""What a model of settings allows, in people's words; for messages, comments and documentation."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_PLAIN = {"number": "a number", "null": "null", "boolean": "yes or no"}

_TEXTS = {"path": "a path", "steps": "steps such as 20-25"}


@cache
def sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections of ``model`` by name."""
    return {
        name: field.annotation
        for name, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }


@cache
def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Every setting as ``section.key``, in the order of the schema."""
    return {
        f"{section}.{key}": field
        for section, group in sections(model).items()
        for key, field in group.model_fields.items()
    }


@cache
def keys(model: type[BaseModel]) -> list[str]:
    """The names of all settings, as ``section.key``."""
    return list(fields(model))


def kind(model: type[BaseModel], name: str) -> str:
    """``identity``, ``machine`` or ``reporting``."""
    extra = fields(model)[name].json_schema_extra
    assert isinstance(extra, dict), name
    return str(extra["kind"])


def allowed(model: type[BaseModel], name: str) -> str:
    """The values that the setting ``name`` may have: ``a whole number from 16 to 8192``."""
    section, _, key = name.partition(".")
    return _words(_properties(sections(model)[section])[key])


@cache
def _properties(group: type[BaseModel]) -> dict[str, Any]:
    properties: dict[str, Any] = group.model_json_schema()["properties"]
    return properties


def _words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_words(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        *most, last = schema.get("enum", [schema.get("const")])
        return f"{', '.join(most)} or {last}" if most else str(last)
    if schema["type"] == "array":
        return f"{_words(schema['items'])} or a list of them"
    if schema["type"] == "string":
        return _TEXTS.get(schema.get("format", ""), "text")
    if schema["type"] in ("integer", "number"):
        noun = "a whole number" if schema["type"] == "integer" else "a number"
        return " ".join([noun, *_range(schema)])
    return _PLAIN[schema["type"]]


def _range(schema: dict[str, Any]) -> list[str]:
    """``from 0 to 1``, or the words for whichever limits there are."""
    if "minimum" in schema and "maximum" in schema:
        return [f"from {_plain(schema['minimum'])} to {_plain(schema['maximum'])}"]
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {_plain(schema[name])}" for name, word in words.items() if name in schema]
    return [" and ".join(limits)] if limits else []


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
