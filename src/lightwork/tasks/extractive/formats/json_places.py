"""Where in a JSON text something stands that Python's decoder refuses without saying where.

What comes before that place was decoded, so it is JSON.
"""

from __future__ import annotations

import json
import re
import sys

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[\[\]{}]|-?\d[\d.eE+-]*', re.DOTALL)
"""A text, closed or not, a bracket, or a number."""
_COLON = re.compile(r"\s*:")
_DEEP_LEVELS = 200


def place_in(text: str, offset: int | None, line: int = 0) -> str:
    """`` at line 3, column 7``, from 1; the column alone where ``text`` is one line of a file."""
    if offset is None:
        return ""
    column = offset - text.rfind("\n", 0, offset)
    number = text.count("\n", 0, offset) + 1
    return f" at column {column}" if line else f" at line {number}, column {column}"


def repeated_key(text: str) -> tuple[str, int | None]:
    """The first key that an object has twice, and the offset of its second occurrence."""
    open_keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in ("{", "["):
            open_keys.append(set())
        elif sign in ("}", "]") and open_keys:
            open_keys.pop()
        elif sign[0] == '"' and open_keys and _COLON.match(text, token.end()):
            key = json.loads(sign, strict=False)
            if key in open_keys[-1]:
                return key, token.start()
            open_keys[-1].add(key)
    return "", None


def long_number(text: str) -> int | None:
    """The offset of the first whole number of more digits than Python reads."""
    most = sys.get_int_max_str_digits()
    for token in _TOKEN.finditer(text):
        digits = token[0].removeprefix("-")
        if digits.isdecimal() and len(digits) > most > 0:
            return token.start()
    return None


def deep_value(text: str) -> int | None:
    """The offset of the first list or object that more than ``_DEEP_LEVELS`` others are around."""
    level = 0
    for token in _TOKEN.finditer(text):
        level += (token[0] in "[{") - (token[0] in "]}")
        if level > _DEEP_LEVELS:
            return token.start()
    return None
