"""A folder with settings in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings.given import MINIMAL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with training data and a minimal settings file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.json").write_text('{"data": []}')
    (tmp_path / "s.yaml").write_text(MINIMAL)
    return tmp_path
