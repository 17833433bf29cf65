"""One proposed setting with its reason, and how numbers are said in reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """A proposed setting; ``name`` is ``section.key``."""

    name: str
    value: str | int | float | tuple[str, ...]
    why: str


def percent(part: float) -> str:
    """``97 %``; never 0 or 100 where it is not exactly that."""
    rounded = round(100 * part)
    if rounded >= 100 and part < 1:
        return "over 99 %"
    return "under 1 %" if rounded == 0 and part > 0 else f"{rounded} %"
