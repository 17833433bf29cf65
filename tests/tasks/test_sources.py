"""Where models and tokenizers come from: folders, packages, hub names, or trained here."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.model import (
    load_tokenizer,
    resolve_source,
    train_tokenizer,
)
from tests.tasks.made import TEXTS, build


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
