"""Writes docs/settings.md from the schema of the settings."""

from __future__ import annotations

from pathlib import Path

from lightwork.settings import Settings
from lightwork.settings.describe import allowed, fields, kind, sections

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

*Written by `python tools/settings_page.py`; change `learning.py` and `running.py` in
`src/lightwork/settings` instead of this page.*

A settings file is YAML with the sections below; `section.key=value` on the command line replaces
single values. Both mean the same: every value is read by the type of its setting, so `3e-5` is a
number, `no` in a text stays `no`, `384.0` is a whole number and `384.5` is not. `012` is refused,
because YAML readers disagree whether it is twelve or ten. `null`, `~` or nothing at all means
"none" where that is allowed. A list is written `[first, second]`. Unknown names and names given
twice are errors.

A relative path is looked for in the current folder first and, if it is not there, beside the
settings file. `~` is your home folder.

The kind of a setting says what another value changes:

- **identity**: what is learned. Another value is another run with another folder. The training
  files count by their content, not by their path.
- **machine**: where, how fast and how safely it is learned. A run may continue with another value.
- **reporting**: what is measured and written down on the way.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    defaults = _defaults()
    for section, group in sections(Settings).items():
        parts.append(f"\n## {section}\n\n{(group.__doc__ or '').strip()}\n")
        parts.append("| key | default | allowed | kind | what it does |")
        parts.append("| --- | --- | --- | --- | --- |")
        for key in group.model_fields:
            name = f"{section}.{key}"
            cells = [
                f"`{name}`",
                defaults[name],
                allowed(Settings, name),
                kind(Settings, name),
                str(fields(Settings)[name].description),
            ]
            parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def _defaults() -> dict[str, str]:
    shown = {}
    for name, field in fields(Settings).items():
        if field.is_required():
            shown[name] = "*required*"
        else:
            shown[name] = f"`{_written(field.default)}`"
    return shown


def _written(default: object) -> str:
    """As in a settings file."""
    if isinstance(default, tuple):
        return f"[{', '.join(default)}]"
    return "null" if default is None else str(default)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
