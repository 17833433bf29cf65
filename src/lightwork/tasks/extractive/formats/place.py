"""Where in which file we are, so that a wrong shape is told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import shown


class Place:
    """A step into a file. The path is put together only when something is wrong there."""

    __slots__ = ("file", "id", "parent", "step")

    def __init__(
        self, file: Path, step: str | int = "", parent: Place | None = None, example_id: str = ""
    ) -> None:
        self.file, self.step, self.parent, self.id = file, step, parent, example_id

    def at(self, step: str | int) -> Place:
        """A key or the number of an item, one step further in."""
        return Place(self.file, step, self, self.id)

    @property
    def path(self) -> str:
        """Such as ``data[0].paragraphs[3].context``; nothing at the top."""
        before = self.parent.path if self.parent else ""
        if isinstance(self.step, int):
            return f"{before}[{self.step}]"
        return f"{before}.{self.step}" if before and self.step else before or self.step

    def problem(self, text: str) -> DataError:
        """An error that says where."""
        path = self.path
        where = f"at {path}" if path else "at the top"
        where += f" (id {shown(self.id)})" if self.id else ""
        return DataError(f"{self.file}: {where}: {text}")

    def wrong(self, expected: str, found: Any) -> DataError:
        """An error about a value of another shape."""
        return self.problem(f"expected {expected}, found {described(found)}")


def described(value: Any) -> str:
    """A value in a few words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        keys = ", ".join(shown(str(key)) for key in list(value)[:6])
        return f"an object with {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, str):
        return f"the text {shown(value)!r}"
    kind = "number" if isinstance(value, (int, float)) else type(value).__name__
    return f"the {kind} {shown(str(value))}"


def as_object(place: Place, value: Any, expected: str) -> dict[str, Any]:
    """``value``, which must be an object."""
    if not isinstance(value, dict):
        raise place.wrong(expected, value)
    return value


def objects_in(
    place: Place, parent: dict[str, Any], key: str, keys: str
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The objects of the list ``parent[key]``, each with its place."""
    if key not in parent:
        raise place.wrong(f"an object with {key}", parent)
    values = place.at(key)
    if not isinstance(parent[key], list):
        raise values.wrong("a list", parent[key])
    expected = f"an object with {keys}"
    for index, value in enumerate(parent[key]):
        spot = values.at(index)
        yield spot, as_object(spot, value, expected)


def text_in(place: Place, parent: dict[str, Any], key: str) -> str:
    """The text ``parent[key]``, exactly as it is."""
    value = parent.get(key)
    if isinstance(value, str) and value.isascii():
        return value
    if key not in parent:
        raise place.wrong(f"an object with {key}", parent)
    return as_text(place.at(key), value)


def as_text(place: Place, value: Any) -> str:
    """``value``, which must be a text of whole characters: an escape such as ``\\ud83d`` alone
    leaves half of one.
    """
    if not isinstance(value, str):
        raise place.wrong("a text", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise place.problem(
            f"character {error.start} is half of a surrogate pair, which is not text"
        ) from None
    return value


def id_in(place: Place, parent: dict[str, Any], key: str) -> str:
    """The id ``parent[key]``; a whole number stands for its digits."""
    value = parent.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    name = text_in(place, parent, key)
    if not name.strip():
        raise place.at(key).wrong("an id", name)
    return name
