"""Paths in the settings: where they are looked for, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import SettingsError
from lightwork.manifest import describe, manifest
from lightwork.settings import (
    check_files,
    check_paths,
    identity,
    load_settings,
)
from tests.settings.given import load, mistakes


def test_one_path_or_a_list(folder: Path) -> None:
    one = load().data.train
    assert one == (folder / "train.json",)
    assert load("data.train=[train.json]").data.train == one
    assert load("data.train='train.json'").data.train == one
    assert "data.train is []" in mistakes("data.train=[]")
    assert "data.train is [a, [b]] (command line)" in mistakes("data.train=[a, [b]]")


def test_a_pattern_stands_for_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("part-2.json", "part-1.json", "odd[1].json"):
        (folder / name).write_text("x")
    parts = (folder / "part-1.json", folder / "part-2.json")
    assert load("data.train='part-*.json'").data.train == parts
    assert load("data.dev=['part-?.json', train.json]").data.dev == (*parts, folder / "train.json")
    assert load("data.train='odd[1].json'").data.train == (folder / "odd[1].json",)
    with pytest.raises(SettingsError, match=r"data.train: no-\*.json .* matches no file"):
        check_paths(load("data.train='no-*.json'"))
    assert check_files("--data", ["part-*.json"]) == list(parts)
    inner = folder / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    beside = load_settings(Path("../s.yaml"), ["data.dev='part-*.json'"])
    assert beside.data.dev == parts, "else beside the settings file"


def test_a_data_set_of_the_hub_is_no_path(folder: Path) -> None:
    name = "hub:owner/set/plain#validation[:10%]"
    settings = load(f"data.train='{name}'")
    assert list(map(str, settings.data.train)) == [name]
    check_paths(settings)
    assert identity(settings)["data.train"] == [name]


def test_paths_are_found_here_then_beside_the_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = folder / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert load_settings(Path("../s.yaml")).data.train == (folder / "train.json",)
    (inner / "train.json").write_text("x")
    assert load_settings(Path("../s.yaml")).data.train == (inner / "train.json",)
    monkeypatch.setenv("HOME", str(folder))
    assert load_settings(Path("~/s.yaml"), ["data.dev=~/x"]).data.dev == (folder / "x",)


def test_model_source_is_a_path_only_where_it_is_one(folder: Path) -> None:
    (folder / "tiny").mkdir()
    assert load("model.source=tiny").model.source == str(folder / "tiny")
    assert load("model.source=./none").model.source == str(folder / "none")
    for name in ("scratch", "bert-base-uncased", "a/b", "package:x/y"):
        assert load(f"model.source={name}").model.source == name


def path_mistake(*overrides: str) -> str:
    cache = [] if any("data.cache" in text for text in overrides) else ["data.cache=cache"]
    with pytest.raises(SettingsError) as caught:
        check_paths(load(*cache, *overrides))
    return str(caught.value)


def test_bad_paths_name_key_given_absolute_and_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "a_dir").mkdir()
    (folder / "a_file").write_text("x")
    (folder / "empty.json").touch()
    for given, path, reason in [
        ("nope.json", folder / "nope.json", "does not exist"),
        ("a_dir", folder / "a_dir", "is a folder, not a file"),
        ("empty.json", folder / "empty.json", "is empty"),
        ("a_file/sub", folder / "a_file/sub", "does not exist"),
        ("~/not/there.json", folder / "home/not/there.json", "does not exist"),
        ("名前 with space.json", folder / "名前 with space.json", "does not exist"),
        ("x" * 300, folder / ("x" * 300), "cannot be read: File name too long"),
    ]:
        assert path_mistake(f"data.train={given}") == f"data.train: {given} ({path}) {reason}"
        assert path_mistake(f"data.dev={given}") == f"data.dev: {given} ({path}) {reason}"
        with pytest.raises(SettingsError, match=reason):
            check_files("--data", [given])
    check_paths(load("data.cache=cache"))


def test_bad_cache_and_model_folders(folder: Path) -> None:
    (folder / "a_file").write_text("x")
    (folder / "a_dir").mkdir()
    assert "is a file, not a folder" in path_mistake("data.cache=a_file")
    assert "lies inside a file" in path_mistake("data.cache=a_file/sub")
    assert "cannot be made" in path_mistake("data.cache=/proc/none")
    assert "has no config.json inside" in path_mistake("model.source=a_dir")
    assert "give the folder of a model" in path_mistake("model.source=./a_file")
    assert "does not exist" in path_mistake("model.source=./none")
    assert "the package no_such is not installed" in path_mistake("model.source=package:no_such/x")
    assert "has no config.json" in path_mistake("model.source=package:pytest/x")
    assert "data.train" in mistakes('data.train=""')


def test_all_bad_paths_at_once(folder: Path) -> None:
    text = path_mistake("data.train=[no1, no2]", "data.dev=no3", "model.source=./no4")
    assert [line.partition(" (")[0] for line in text.splitlines()] == [
        "data.train: no1",
        "data.train: no2",
        "data.dev: no3",
        "model.source: ./no4",
    ]


def test_a_checkpoint_or_its_file_of_weights_as_the_model(folder: Path) -> None:
    checkpoint = folder / "checkpoints/step-000007"
    model = checkpoint / "model"
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (model / name).write_text("{}")
    (checkpoint / "manifest.json").write_bytes(manifest(describe(checkpoint), step=7, run="r"))
    (folder / "best").symlink_to(checkpoint)
    for given in ("", "/model", "/model/model.safetensors"):
        settings = load(f"model.source=checkpoints/step-000007{given}")
        assert settings.model.source == str(model)
        check_paths(settings)
    assert load("model.source=best").model.source == str(folder / "best/model")
    (model / "config.json").write_text("{ }")
    for given in ("checkpoints/step-000007", "best", "checkpoints/step-000007/model"):
        told = path_mistake(f"model.source={given}")
        assert "is in a damaged checkpoint: model/config.json has 3 bytes instead of 2" in told
