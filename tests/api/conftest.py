"""A model in a folder, small enough to train in a second, and questions to train it on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from lightwork.sync import rows
from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    load_tokenizer,
    save_model,
    train_tokenizer,
)
from tests.api.tables import PLACES, WIDTH
from tests.runs.conftest import questions


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train.json`` with 19 questions, and two models: ``plain``, and ``dropping`` units."""
    folder = tmp_path_factory.mktemp("tiny")
    data = questions(19)
    (folder / "train.json").write_text(json.dumps(data))
    paragraphs = [p for article in data["data"] for p in article["paragraphs"]]
    texts = [text for p in paragraphs for text in (p["context"], p["qas"][0]["question"])]
    for name, dropout in (("plain", 0.0), ("dropping", 0.2)):
        train_tokenizer(texts, 300, folder / name)
        tokenizer = load_tokenizer(str(folder / name))
        with torch.random.fork_rng():
            torch.manual_seed(1)
            module = build_model(
                "scratch",
                dropout=dropout,
                weights=True,
                scratch=ScratchShape(2, 32, 2, 64, 384),
                vocabulary=len(tokenizer),
            )
        save_model(module, tokenizer, folder / name)
    return folder


@pytest.fixture
def small_tables_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tables in ``tests.api.tables``, the one with the words."""
    monkeypatch.setattr(rows, "LEAST_BYTES", 8 * PLACES * WIDTH + 1)
