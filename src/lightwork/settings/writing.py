"""Resolved settings as YAML with their help, which loads to equal settings again."""

from __future__ import annotations

from typing import Any

import yaml

from lightwork.settings.describe import allowed, fields, kind, sections
from lightwork.settings.schema import Settings

_ENDLESS = 1 << 30


def to_yaml(settings: Settings) -> str:
    """All settings of ``settings``, each under a comment with its help; paths are absolute."""
    values = settings.model_dump(mode="json")
    lines = []
    for section, group in sections(Settings).items():
        lines += [f"# {(group.__doc__ or '').strip()}", f"{section}:"]
        for key in group.model_fields:
            name = f"{section}.{key}"
            text = fields(Settings)[name].description
            lines.append(f"  # {text}. {kind(Settings, name)}: {allowed(Settings, name)}")
            lines.append(f"  {key}: {_scalar(values[section][key])}")
        lines.append("")
    return "\n".join(lines)


def _scalar(value: Any) -> str:
    """One line of YAML, quoted where another reader could take it for something else."""
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    style = '"' if isinstance(value, str) and not value.isidentifier() else None
    text = yaml.safe_dump(value, default_style=style, width=_ENDLESS, allow_unicode=True)
    return text.removesuffix("...\n").strip()
