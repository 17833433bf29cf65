"""Settings as a person gives them: a file, and words on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import SettingsError
from lightwork.settings import Settings, load_settings

MINIMAL = "data:\n  train: train.json\nmodel:\n  source: scratch\n"


def load(*overrides: str) -> Settings:
    """From ``s.yaml`` in the current folder."""
    return load_settings(Path("s.yaml"), overrides)


def mistakes(*overrides: str) -> str:
    """What is said of them."""
    with pytest.raises(SettingsError) as caught:
        load(*overrides)
    return str(caught.value)


def in_file(text: str) -> Settings:
    """With ``text`` behind the minimal settings."""
    Path("s.yaml").write_text(MINIMAL + text)
    return load()


def mistakes_in_file(text: str) -> str:
    """What is said of a file with ``text``."""
    with pytest.raises(SettingsError) as caught:
        in_file(text)
    return str(caught.value)
