"""``lightwork prepare``: tokenise the data once, before any training."""

from __future__ import annotations

from lightwork.cli.arguments import Overrides, SettingsFile
from lightwork.settings import check_paths, load_settings, locate


def prepare(settings_file: SettingsFile, overrides: Overrides = None) -> None:
    """Tokenise the questions once, to the cache; train does so too."""
    file, _ = locate(settings_file)
    settings = load_settings(file, overrides or [])
    check_paths(settings)
    from lightwork.assembly import run_prepare

    run_prepare(settings)
