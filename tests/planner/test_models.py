"""What of a model is on this machine, without asking any network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest

from lightwork.errors import SettingsError
from lightwork.planner.models import BASE, examine

CONFIG = {
    "model_type": "bert", "num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 4,
    "vocab_size": 1000, "max_position_embeddings": 96,
}  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put(cache: Path, name: str, *files: str) -> Path:
    """Files of the hub model ``name``, as a download leaves them."""
    model = cache / f"models--{name.replace('/', '--')}"
    snapshot = model / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0" * 40)
    for file in files:
        (snapshot / file).write_text(json.dumps(CONFIG))
    return snapshot


def model_folder(folder: Path, **config: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "model.safetensors").touch()
    return folder


def test_a_hub_model_that_is_nowhere(cache: Path) -> None:
    model = examine("owner/name")
    assert (model.kind, model.tokenizer_folder, model.shape) == ("download", None, BASE)
    assert model.known is None


def test_a_hub_model_in_the_cache(cache: Path) -> None:
    snapshot = put(cache, "owner/name", "config.json", "tokenizer.json", "model.safetensors")
    model = examine("owner/name")
    assert (model.kind, model.tokenizer_folder) == ("cached", snapshot)
    assert (model.shape.layers, model.shape.width, model.shape.positions) == (3, 48, 96)
    assert model.shape.parameters == 1000 * 48 + 3 * 12 * 48 * 48


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "vocab.txt"])
def test_without_safetensors_it_must_be_downloaded(cache: Path, weights: str) -> None:
    snapshot = put(cache, "owner/name", "config.json", "tokenizer.json", weights)
    model = examine("owner/name")
    assert (model.kind, model.tokenizer_folder) == ("download", snapshot)


def test_a_folder(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "mine")
    model = examine(str(folder))
    assert (model.kind, model.tokenizer_folder) == ("local", folder)


def test_positions_that_are_never_used(tmp_path: Path) -> None:
    roberta = {"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert examine(str(model_folder(tmp_path / "a", **roberta))).shape.positions == 512
    relative = {"position_embedding_type": "relative_key"}
    assert examine(str(model_folder(tmp_path / "b", **relative))).shape.positions is None


def test_an_odd_config_is_no_reason_to_stop(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "mine")
    for text in ("[]", "{", '{"hidden_size": "wide"}'):
        (folder / "config.json").write_text(text)
        assert examine(str(folder)).shape.width == BASE.width


@pytest.mark.parametrize("source", ["package:no_such/model", "two words", "-odd-/name"])
def test_what_cannot_be_a_model(cache: Path, source: str) -> None:
    with pytest.raises(SettingsError, match=r"model\.source"):
        examine(source)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "mine")
    shutil.move(folder / "model.safetensors", folder / "pytorch_model.bin")
    with pytest.raises(SettingsError, match="pickled"):
        examine(str(folder))
