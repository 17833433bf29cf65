"""YAML as a tree of texts: no scalar is guessed to be a number, a switch or a date.

YAML 1.1 reads ``3e-5`` as text, ``012`` as 10 and ``no`` as false. Here every scalar stays as it
was written and the declared type of its setting decides, so a settings file and the command line
mean the same. Only an unquoted empty value, ``~`` or ``null`` is taken for null.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from lightwork.errors import SettingsError
from lightwork.settings.paths import named

_NULL = {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True)
class Given:
    """One value as it was written, and where."""

    value: str | list[str | None] | dict[str, str] | None
    """A dict, of no content, where something nested stands: no type allows it."""
    shown: str
    where: str


Tree = dict[str, "dict[str, Given] | Given"]


MOST_BYTES = 1 << 20
"""Of a settings file: reading YAML takes a second or more for each of so many."""


def read_file(path: Path) -> str:
    """The text of a settings file; every way in which there is none is a SettingsError."""
    label = f"the settings file {named(str(path), path.expanduser().absolute())}"
    try:
        content = path.expanduser().read_bytes()
        if len(content) > MOST_BYTES:
            raise SettingsError(
                f"{label} has {len(content):,} bytes, too many for one; is it a data "
                "file? Name it in data.train of a settings file, which lightwork init --train "
                "writes"
            )
        text = content.decode("utf-8-sig")
    except IsADirectoryError:
        raise SettingsError(f"{label} is a folder; give the YAML file in it") from None
    except FileNotFoundError:
        raise SettingsError(f"{label} does not exist") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{label} is not UTF-8 text: byte {error.start} is odd") from None
    except OSError as error:
        raise SettingsError(f"{label} cannot be read: {error.strerror}") from None
    if not text.strip():
        raise SettingsError(f"{label} is empty")
    return text


def parse(text: str, name: str) -> tuple[Tree, list[str]]:
    """Sections and their values as written, and complaints about the shape of the file.

    ``name`` is the file's name in messages. Raises SettingsError where it is not YAML at all.
    """
    node = _compose(text, name)
    if node is None:
        raise SettingsError(f"{name} holds no settings, only comments or nothing")
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{name} must hold sections such as 'train:', each with its settings")
    complaints: list[str] = []
    tree: Tree = {}
    for section, body in _entries(node, name, "", complaints):
        if isinstance(body, yaml.MappingNode):
            entries = _entries(body, name, f"{section}.", complaints)
            tree[section] = {key: _given(value, name) for key, value in entries}
        else:
            tree[section] = _given(body, name)
    return tree, complaints


def parse_value(text: str, where: str) -> Given:
    """A value of the command line: YAML where it is a list or in quotes, otherwise plain text."""
    if text.lstrip().startswith(("[", '"', "'")):
        node = _compose(text, where)
        assert node is not None
        return replace(_given(node, where), shown=text, where=where)
    return Given(None if text in _NULL else text, text or "nothing", where)


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SettingsError(f"{name}{place}: this is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"{name}: this is not YAML: {reason}") from None
    except RecursionError:
        raise SettingsError(f"{name}: the lists or sections are nested too deeply") from None
    return node


def _entries(
    node: yaml.MappingNode, name: str, prefix: str, complaints: list[str]
) -> list[tuple[str, yaml.Node]]:
    """Keys and values of a mapping; a repeated key is a complaint, its first value counts."""
    found: dict[str, tuple[int, yaml.Node]] = {}
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            complaints.append(f"{name}, line {line}: a name was expected before the colon")
            continue
        key = str(key_node.value)
        if key in found:
            first = found[key][0]
            complaints.append(
                f"{prefix}{key} is given twice, in lines {first} and {line}; keep one of them"
            )
            continue
        found[key] = (line, value)
    return [(key, value) for key, (_, value) in found.items()]


def _given(node: yaml.Node, name: str) -> Given:
    """The text of a value or of a plain list of values."""
    where = f"{name}, line {node.start_mark.line + 1}"
    if isinstance(node, yaml.ScalarNode):
        return Given(_text(node), str(node.value) or "nothing", where)
    if isinstance(node, yaml.SequenceNode):
        items: list[Any] = node.value
        if all(isinstance(item, yaml.ScalarNode) for item in items):
            shown = ", ".join(str(item.value) for item in items)
            return Given([_text(item) for item in items], f"[{shown}]", where)
    return Given({}, "values inside values", where)


def _text(node: yaml.ScalarNode) -> str | None:
    plain = node.style is None
    return None if plain and node.value in _NULL else str(node.value)
