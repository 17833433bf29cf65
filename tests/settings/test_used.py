"""No setting is an empty promise: each is read somewhere outside the settings themselves."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from lightwork.settings import Settings
from lightwork.settings.describe import keys

SOURCE = Path(__file__).resolve().parents[2] / "src" / "lightwork"


@cache
def names_read() -> set[str]:
    """``a.b`` for every ``….a.b`` and ``a.b`` in the rooms that may read settings."""
    names = set()
    for room in ("assembly", "cli"):
        for path in (SOURCE / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    owner = node.value
                    if isinstance(owner, ast.Attribute):
                        names.add(f"{owner.attr}.{node.attr}")
                    elif isinstance(owner, ast.Name):
                        names.add(f"{owner.id}.{node.attr}")
    return names


@pytest.mark.parametrize("name", keys(Settings))
def test_setting_is_read(name: str) -> None:
    assert name in names_read()
