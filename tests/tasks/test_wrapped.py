"""Weights saved from inside a wrapper are the weights of the model inside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.model import ScratchShape, build_model
from lightwork.tasks.extractive.wrapped import unwrapped

SHAPE = ScratchShape(layers=1, hidden=16, heads=2, intermediate=32, positions=32)


def build(source: str) -> torch.nn.Module:
    return build_model(source, dropout=None, weights=True, scratch=SHAPE, vocabulary=20)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    build("scratch").save_pretrained(tmp_path)  # type: ignore[operator]
    return tmp_path


def rename(folder: Path, change: Callable[[str], str]) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({change(name): value for name, value in weights.items()}, path, {"format": "pt"})


@pytest.mark.parametrize("prefix", ["module.", "module.module.", "_orig_mod.module."])
def test_wrapped_weights_are_loaded(saved: Path, prefix: str) -> None:
    plain = build(str(saved)).state_dict()
    rename(saved, lambda name: prefix + name)
    loaded = build(str(saved)).state_dict()
    assert plain.keys() == loaded.keys()
    assert all(torch.equal(plain[name], loaded[name]) for name in plain)


def test_a_prefix_on_some_names_is_an_error(saved: Path) -> None:
    rename(saved, lambda name: name if "qa_outputs" in name else f"module.{name}")
    with pytest.raises(SettingsError, match=r"missing bert\.embeddings"):
        build(str(saved))


def test_wrapped_weights_of_another_model_are_an_error(saved: Path) -> None:
    rename(saved, lambda name: f"module.{name}".replace("encoder", "decoder"))
    with pytest.raises(SettingsError, match=r"missing bert\.encoder.* and \d+ more"):
        build(str(saved))


def test_only_a_prefix_of_all_names_goes_and_only_in_front() -> None:
    inner = ["encoder.module.w", "module_list.0.w", "head.w"]
    assert list(unwrapped(inner).values()) == inner
    assert list(unwrapped(["module.a", "b"]).values()) == ["module.a", "b"]
    assert list(unwrapped(["module.module.w", "module.x.module.v"]).values()) == [
        "module.w",
        "x.module.v",
    ]
    assert unwrapped([]) == {}


@pytest.mark.shared
def test_the_shared_case_of_prefixes(shared: Path) -> None:
    folder = shared / "cases" / "34-state-dict-prefix"
    given = json.loads((folder / "input.json").read_bytes())
    expected = json.loads((folder / "expect.json").read_bytes())
    own = {"encoder.w", "head.w"}
    for name, keys in given.items():
        bare = set(unwrapped(keys).values())
        if name == "mixed":
            assert bare == set(keys) != own, "left as it is, so that loading names what is amiss"
        elif name == "wrong_model":
            assert (own - bare, bare - own) == ({"head.w"}, {"old_head.w"})
        else:
            assert sorted(bare) == sorted(expected[name])
