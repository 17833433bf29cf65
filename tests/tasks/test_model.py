"""Where models and tokenizers come from, and what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, AutoModelForQuestionAnswering

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    check_length,
    freeze,
    load_tokenizer,
    longest_input,
    resolve_source,
)
from tests.tasks.made import build


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
    assert model.config.intermediate_size == 32
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert longest_input(model) == 48
    check_length(model, 48)
    with pytest.raises(SettingsError, match=r"data.max_length 49 .* 48 tokens"):
        check_length(model, 49)


def test_a_table_of_positions_with_an_offset() -> None:
    class Offset(nn.Embedding):
        offset = 2

    model = nn.ModuleDict({"embed_positions": Offset(1026, 4)})
    assert longest_input(model) == 1024
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


def test_the_packaged_encoder(packaged: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tokenizer = load_tokenizer(packaged)
    model = build(packaged, 0.0, ids=len(tokenizer))
    assert len(tokenizer) == 30522
    assert longest_input(model) == 512
    assert probabilities(model) == {0.0}
    assert "brings no answer head" in caplog.text


@pytest.mark.parametrize("kind", ["scratch", "distilbert", "roberta", "electra"])
def test_frozen_parts_get_no_gradient(kind: str) -> None:
    configs = {
        "distilbert": {"dim": 16, "n_heads": 2, "n_layers": 1, "hidden_dim": 16},
        "roberta": {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1},
        "electra": {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1},
    }

    def trained(what: Any) -> set[str]:
        if kind == "scratch":
            model = build("scratch")
        else:
            config = AutoConfig.for_model(kind, vocab_size=64, **configs[kind])
            model = AutoModelForQuestionAnswering.from_config(config)
        freeze(model, what)
        return {name for name, p in model.named_parameters() if p.requires_grad}

    whole, upper, head = trained("none"), trained("embeddings"), trained("encoder")
    assert head == {"qa_outputs.weight", "qa_outputs.bias"}
    assert head < upper < whole
    assert whole - upper == {name for name in whole if ".embeddings." in name}
    assert any("word_embeddings" in name for name in whole - upper)
