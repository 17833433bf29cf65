"""Where models and tokenizers come from, and what is refused."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    check_length,
    load_tokenizer,
    longest_input,
    resolve_source,
    train_tokenizer,
)
from tests.tasks.conftest import TEXTS

SHAPE = ScratchShape(layers=2, hidden=16, heads=2, intermediate=32, positions=48)


def build(source: str, dropout: float | None = None, weights: bool = True, ids: int = 64) -> Any:
    return build_model(source, dropout=dropout, weights=weights, scratch=SHAPE, vocabulary=ids)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a small model that has an answer head."""
    torch.manual_seed(3)
    folder = tmp_path / "saved"
    build("scratch").save_pretrained(folder)
    return folder


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A folder with an encoder alone: a pooler, no head, and another number of labels."""
    torch.manual_seed(4)
    folder = tmp_path / "encoder"
    build("scratch").save_pretrained(folder)
    change_weights(
        folder, lambda name: None if "qa_outputs" in name else name.removeprefix("bert.")
    )
    weights = load_file(folder / "model.safetensors")
    weights["pooler.dense.weight"] = torch.zeros(16, 16)
    weights["embeddings.position_ids"] = torch.arange(48)
    weights["cls.predictions.bias"] = torch.zeros(64)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    change_config(folder, id2label={str(i): str(i) for i in range(3)})
    return folder


def change_weights(folder: Path, rename: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {rename(name): value for name, value in weights.items() if rename(name)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def probabilities(model: nn.Module) -> set[float]:
    return {module.p for module in model.modules() if isinstance(module, nn.Dropout)}


def test_scratch_is_a_small_bert_of_the_given_shape() -> None:
    model = build("scratch")
    assert model.config.num_hidden_layers == 2
    assert model.get_input_embeddings().weight.shape == (64, 16)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert longest_input(model) == 48
    check_length(model, 48)
    with pytest.raises(SettingsError, match=r"data.max_length 49 .* 48 tokens"):
        check_length(model, 49)


def test_positions_behind_the_padding_id_are_not_counted() -> None:
    class Roberta(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.position_embeddings = nn.Embedding(514, 4, padding_idx=1)

    assert longest_input(Roberta()) == 512
    assert longest_input(nn.Linear(2, 2)) is None


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(SettingsError, match="16 cannot be divided among 3"):
        build_model(
            "scratch", dropout=None, weights=True, scratch=ScratchShape(1, 16, 3), vocabulary=9
        )


@pytest.mark.parametrize("weights", [True, False])
def test_dropout_is_set_everywhere(saved: Path, weights: bool) -> None:
    assert probabilities(build(str(saved), weights=weights)) == {0.1}
    assert probabilities(build(str(saved), 0.0, weights)) == {0.0}
    model = build(str(saved), 0.25, weights)
    assert probabilities(model) == {0.25}
    assert model.config.attention_probs_dropout_prob == 0.25
    assert probabilities(build("scratch", 0.25)) == {0.25}


def test_a_saved_model_comes_back_exactly_and_in_silence(
    saved: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    model = build(str(saved))
    stored = load_file(saved / "model.safetensors")
    assert set(stored) == set(model.state_dict())
    assert all(torch.equal(stored[name], value) for name, value in model.state_dict().items())
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_without_weights_only_the_shapes_are_the_same(saved: Path) -> None:
    model, bare = build(str(saved)), build(str(saved), weights=False)
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert {name: value.shape for name, value in bare.state_dict().items()} == shapes
    name = "bert.encoder.layer.0.output.dense.weight"
    assert not torch.equal(model.state_dict()[name], bare.state_dict()[name])
    (saved / "model.safetensors").rename(saved / "elsewhere.safetensors")
    build(str(saved), weights=False)


def test_an_encoder_gets_a_new_head_of_two_and_one_line_says_so(
    encoder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    model = build(str(encoder))
    assert model.qa_outputs.weight.shape == (2, 16)
    assert [record.getMessage() for record in caplog.records] == [
        f"{encoder} brings no answer head: qa_outputs.bias, qa_outputs.weight are new and random"
    ]
    assert capfd.readouterr() == ("", "")
    name = "encoder.layer.1.output.dense.weight"
    stored = load_file(encoder / "model.safetensors")[name]
    assert torch.equal(model.state_dict()[f"bert.{name}"], stored)


def test_weights_stored_in_half_precision_become_float32(saved: Path) -> None:
    half = build(str(saved)).bfloat16()
    half.save_pretrained(saved)
    for weights in (True, False):
        model = build(str(saved), weights=weights)
        assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("rename", "told"),
    [
        (
            lambda name: None if "layer.1.output.dense" in name else name,
            "missing bert.encoder.layer.1.output.dense.bias",
        ),
        (
            lambda name: name.replace("bert.", "roberta."),
            "and 3",
        ),
    ],
)
def test_weights_that_are_missing_are_an_error(saved: Path, rename: Any, told: str) -> None:
    change_weights(saved, rename)
    with pytest.raises(SettingsError, match="the weights do not fit the configuration") as caught:
        build(str(saved))
    assert told in str(caught.value)


def test_weights_that_are_left_over_are_an_error(saved: Path) -> None:
    change_config(saved, num_hidden_layers=1)
    with pytest.raises(SettingsError, match=r"unexpected bert\.encoder\.layer\.1\.attention"):
        build(str(saved))


def test_weights_of_another_size_are_an_error(saved: Path) -> None:
    change_config(saved, intermediate_size=40)
    with pytest.raises(SettingsError, match="the model cannot be had"):
        build(str(saved))


def test_a_damaged_weights_file_is_an_error(saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(SettingsError, match="the model cannot be had"):
        build(str(saved))


def test_pickled_weights_are_refused_with_the_way_out(saved: Path) -> None:
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    for call in (resolve_source, build):
        with pytest.raises(SettingsError, match=r"pickled weights .* save_pretrained"):
            call(str(saved))


def test_a_tokenizer_with_more_ids_than_embeddings_is_refused(saved: Path) -> None:
    with pytest.raises(SettingsError, match="65 ids but the model only 64 embeddings"):
        build(str(saved), ids=65)


def test_a_model_that_cannot_answer_is_refused(saved: Path) -> None:
    change_config(saved, model_type="vit")
    with pytest.raises(SettingsError, match="the model cannot be had"):
        build(str(saved))


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_source("scratch") == "scratch"
    assert resolve_source("owner/some-model.v1") == "owner/some-model.v1"
    assert resolve_source("bert-base-uncased") == "bert-base-uncased"
    for given in ("saved", "./saved", "~/saved", str(saved)):
        assert resolve_source(given) == str(saved)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("./nope", "does not exist"),
        ("a/b/c", "does not exist"),
        ("~/nope", "does not exist"),
        ("empty", "holds no config.json"),
        ("file", "is a file"),
        ("", "neither a folder, a hub name"),
        ("two words", "neither a folder, a hub name"),
        ("package:no_such_package/model", "no installed package 'no_such_package'"),
        ("package:/model", "no installed package ''"),
        ("package:json/nope", "does not exist"),
        ("package:json", "holds no config.json"),
    ],
)
def test_sources_that_are_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError) as caught:
        resolve_source(given)
    message = str(caught.value)
    assert reason in message
    assert repr(given) in message
    assert "\n" not in message


def test_a_package_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path
) -> None:
    inside = tmp_path / "carries_a_model"
    shutil.copytree(saved, inside / "sub" / "model")
    (inside / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("carries_a_model", "carries-a-model"):
        assert resolve_source(f"package:{name}/sub/model") == str(inside / "sub" / "model")
    assert "carries_a_model" not in sys.modules
    build("package:carries_a_model/sub/model")


def test_a_hub_name_that_cannot_be_had_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    for call in (build, load_tokenizer):
        with pytest.raises(SettingsError, match=r"'no-such/model': the .* cannot be had") as caught:
            call("no-such/model")
        assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_trained_tokenizer_treats_text_like_bert(wordpiece: Any) -> None:
    assert wordpiece.is_fast
    assert wordpiece.tokenize("Ines FALK painted") == wordpiece.tokenize("ines falk painted")
    assert wordpiece.tokenize("cafe\u0301") == wordpiece.tokenize("cafe")
    assert wordpiece.tokenize("王某") == ["王", "某"]
    encoded = wordpiece("Who?", "noon")
    tokens = wordpiece.convert_ids_to_tokens(encoded["input_ids"])
    assert tokens[0] == "[CLS]"
    assert [index for index, token in enumerate(tokens) if token == "[SEP]"][-1] == len(tokens) - 1
    assert encoded["token_type_ids"][0] == 0
    assert encoded["token_type_ids"][-1] == 1
    assert wordpiece.pad_token_id == 0
    assert len(wordpiece) <= 200


def test_the_same_texts_give_the_same_tokenizer(tmp_path: Path) -> None:
    # Many words that occur equally often: whatever breaks the ties must always do so alike.
    texts = [f"{a}{b} {b}{a}x{a}" for a in "abcdefgh" for b in "ijklmnop"] + TEXTS
    written = set()
    for number in range(4):
        folder = tmp_path / str(number)
        train_tokenizer(iter(texts), 120, folder)
        written.add((folder / "tokenizer.json").read_bytes())
    assert len(written) == 1


def test_a_tokenizer_beside_its_model_is_the_same_again(wordpiece: Any, saved: Path) -> None:
    wordpiece.save_pretrained(str(saved))
    again = load_tokenizer(str(saved))
    assert again.backend_tokenizer.to_str() == wordpiece.backend_tokenizer.to_str()
    assert again.model_input_names == wordpiece.model_input_names


def test_a_model_folder_without_vocabulary_has_no_tokenizer(saved: Path) -> None:
    with pytest.raises(SettingsError, match=r"no vocabulary .* tokenizer.json"):
        load_tokenizer(str(saved))


def test_a_tokenizer_that_cannot_pad_is_refused(wordpiece: Any, tmp_path: Path) -> None:
    wordpiece.save_pretrained(str(tmp_path))
    change = tmp_path / "tokenizer_config.json"
    facts = json.loads(change.read_text())
    del facts["pad_token"]
    change.write_text(json.dumps(facts))
    with pytest.raises(SettingsError, match="no padding token"):
        load_tokenizer(str(tmp_path))


def test_the_packaged_encoder(packaged: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tokenizer = load_tokenizer(packaged)
    model = build(packaged, 0.0, ids=len(tokenizer))
    assert len(tokenizer) == 30522
    assert longest_input(model) == 512
    assert probabilities(model) == {0.0}
    assert "brings no answer head" in caplog.text
