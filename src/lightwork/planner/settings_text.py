"""Proposed settings as a short YAML file that explains itself."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import yaml

from lightwork.planner.choices import Choice
from lightwork.settings import Settings
from lightwork.settings.describe import keys

_WIDTH = 98
_PLAIN = re.compile(r"(?:\.{0,2}/)*[A-Za-z_](?:[A-Za-z0-9_./-]|:(?=[A-Za-z0-9]))*")
"""Text that every reader of YAML takes for text, without quotes."""
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def settings_text(head: Sequence[str], choices: Sequence[Choice]) -> str:
    """A settings file: ``head`` as comments, every choice under its reason, other names last."""
    lines = [f"# {one_line(line)}" for line in head]
    for section, group in groupby(choices, key=lambda choice: choice.name.partition(".")[0]):
        lines += ["", f"{section}:"]
        for choice in group:
            lines += _comment(choice.why, 2)
            lines.append(f"  {choice.name.partition('.')[2]}: {_value(choice.value)}")
    chosen = {choice.name for choice in choices}
    others = ", ".join(name for name in keys(Settings) if name not in chosen)
    rest = f"Settings that keep their defaults; a run folder's settings.yaml explains all: {others}"
    return "\n".join([*lines, "", *_comment(rest, 0)]) + "\n"


def _comment(text: str, indent: int) -> list[str]:
    prefix = " " * indent + "# "
    return textwrap.wrap(
        one_line(text),
        _WIDTH,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    )


def one_line(text: str) -> str:
    """``text`` without what would end a line or a terminal's patience."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _value(value: str | int | float | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-")
    if isinstance(value, int) or (_PLAIN.fullmatch(value) and value.lower() not in _WORDS):
        return str(value)
    quoted = yaml.safe_dump(value, default_style='"', width=1 << 30, allow_unicode=True)
    return quoted.strip()


def written_path(given: str, target: Path, folder: Path) -> str:
    """How the file ``target`` is written in a settings file that lies in ``folder``.

    Relative to ``folder`` where that leads there again, even for someone in the current folder,
    which is looked in first; otherwise absolute. What was ``given`` as absolute or with ``~``
    stays so. ``target`` and ``folder`` are absolute; ``target`` need not be there yet.
    """
    if given.startswith(("/", "~")):
        return given
    relative = os.path.relpath(target, folder)
    leads_back = (folder / relative).resolve() == target.resolve()
    here = Path.cwd() / relative
    taken = os.path.lexists(here) and here.resolve() != target.resolve()
    return str(target) if taken or not leads_back or relative.startswith("~") else relative
