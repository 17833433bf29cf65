"""The settings as a whole: written, compared, described."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import get_args

import pytest

from lightwork.settings import (
    Settings,
    differences,
    identity,
    identity_hash,
    load_settings,
    to_yaml,
)
from lightwork.settings.describe import fields, keys, kind
from lightwork.settings.kinds import Language
from lightwork.tasks.extractive.languages import LANGUAGES
from tests.settings.given import load

ROOT = Path(__file__).resolve().parents[2]


def test_the_languages_are_those_that_can_be_scored() -> None:
    assert get_args(Language) == LANGUAGES


def test_written_settings_load_to_equal_ones(folder: Path) -> None:
    odd = '日本 "quoted": #x, [y] \u0085\u2028 é.json'
    settings = load(
        f"data.train={odd}", "data.dev=no", "model.source=1e3", "train.learning_rate=1e-7",
        "train.max_grad_norm=null", "sync.bucket_bytes=8MiB", "launch.threads=3",
    )  # fmt: skip
    text = to_yaml(settings)
    Path("again.yaml").write_text(text, encoding="utf-8")
    assert load_settings(Path("again.yaml")) == settings
    assert load_settings(Path("again.yaml"), ["train.seed=1"]) != settings
    assert '  source: "1e3"\n' in text  # other readers of YAML would take it for a number
    assert "  learning_rate: 1.0e-07\n" in text
    for name, field in fields(Settings).items():
        assert f"  # {field.description}. {kind(Settings, name)}: " in text


def test_identity_is_what_is_learned_and_the_content_of_the_data(folder: Path) -> None:
    plain = identity(load())
    machine_only = [
        "train.micro_batch_tokens=64", "sync.strategy=ddp", "checkpoint.keep=9", "launch.threads=1",
        "data.dev=x", "evaluate.n_best=3", "data.cache=y", "train.log_every_steps=1",
    ]  # fmt: skip
    assert identity(load(*machine_only)) == plain
    assert identity_hash(json.loads(json.dumps(plain))) == identity_hash(plain)
    assert len(identity_hash(plain)) == 8
    other = identity(load("train.learning_rate=1e-4"))
    assert identity_hash(other) != identity_hash(plain)
    assert differences(plain, other) == ["train.learning_rate: 3e-05 became 0.0001"]
    (folder / "train.json").rename(folder / "moved.json")
    assert identity(load("data.train=moved.json")) == plain
    older = {name: value for name, value in plain.items() if name != "train.patience"}
    assert identity_hash(older) == identity_hash(plain), "written before that setting existed"
    assert differences(older, plain) == []
    assert differences(older, {**plain, "train.patience": 3}) == ["train.patience: null became 3"]
    newer = {**plain, "train.later": 1}
    assert differences(newer, plain) == ["train.later: 1 became (unknown there)"]
    (folder / "moved.json").write_text("changed")
    changed = identity(load("data.train=moved.json"))
    assert differences(plain, changed) == ["data.train: the training files have another content"]


def test_settings_never_change(folder: Path) -> None:
    settings = load()
    with pytest.raises(ValueError, match="frozen"):
        settings.train.epochs = 3
    with pytest.raises(ValueError, match="frozen"):
        settings.train = settings.train


def test_every_setting_has_a_kind_and_one_line_of_help() -> None:
    assert len(keys(Settings)) <= 64
    for name, field in fields(Settings).items():
        assert kind(Settings, name) in ("identity", "machine", "reporting"), name
        assert field.description, name
        assert "\n" not in field.description
        assert len(field.description) < 90, name


def test_the_page_of_settings_is_current() -> None:
    spec = importlib.util.spec_from_file_location("settings_page", ROOT / "tools/settings_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    current = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert current == module.page(), "run: python tools/settings_page.py"
