"""Settings: YAML and the command line to typed values, and what is said about mistakes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ConfigDict

from lightwork.errors import SettingsError
from lightwork.settings import (
    Settings,
    check_files,
    check_paths,
    differences,
    identity,
    identity_hash,
    load_settings,
    to_yaml,
)
from lightwork.settings.describe import fields, keys, kind
from lightwork.settings.loading import read
from lightwork.settings.schema import AtLeastOne, Language, Location, Number, Text, Whole
from lightwork.tasks.extractive.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[1]
MINIMAL = "data:\n  train: train.json\nmodel:\n  source: scratch\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with training data and a minimal settings file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.json").write_text('{"data": []}')
    (tmp_path / "s.yaml").write_text(MINIMAL)
    return tmp_path


def load(*overrides: str) -> Settings:
    return load_settings(Path("s.yaml"), overrides)


def mistakes(*overrides: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*overrides)
    return str(caught.value)


def in_file(text: str) -> Settings:
    Path("s.yaml").write_text(MINIMAL + text)
    return load()


def mistakes_in_file(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        in_file(text)
    return str(caught.value)


class Traps(BaseModel):
    """Declared types of every sort, for values that YAML 1.1 takes for something else."""

    model_config = ConfigDict(extra="forbid")
    lr: Number = 0.0
    weight_decay: Number = 0.0
    adam_eps: Number = 0.0
    warmup_updates: Whole = 0
    save_every: Whole = 0
    fp16: bool = False
    language: Text = ""
    doc_stride: Whole = 0
    max_seq_len: Whole = 0
    time_limit: Text = ""
    run_name: Text = ""
    seed: Whole = 0
    output_dir: Location = Path()
    limit: AtLeastOne | None = None


class TrapSettings(BaseModel):
    """A model with one section."""

    run: Traps = Traps()


TRAPS = {
    "lr: 1e-4": 1e-4,
    "lr: 3E-5": 3e-5,
    "lr: 5": 5.0,
    'weight_decay: "1.0e-2"': 0.01,
    "save_every: 1_000": 1000,
    "save_every: 1e3": 1000,
    "seed: 0": 0,
    "seed: -3": -3,
    "fp16: yes": True,
    "fp16: on": True,
    "fp16: No": False,
    "fp16: false": False,
    "language: no": "no",
    "language: on": "on",
    "language: 'null'": "null",
    "language: 2024-01-31": "2024-01-31",
    'doc_stride: "128"': 128,
    "max_seq_len: 384.0": 384,
    "time_limit: 12:30": "12:30",
    "run_name: 1e3": "1e3",
    "run_name: 0777": "0777",
    "limit: ~": None,
    "limit:": None,
}


def trap(line: str) -> Any:
    """The value of one line of YAML, which must be the same from the command line."""
    key, _, value = line.partition(":")
    Path("traps.yaml").write_text(f"run:\n  {line}\n")
    from_file = read(TrapSettings, Path("traps.yaml"), [], {})
    from_command = read(TrapSettings, None, [f"run.{key}={value.strip()}"], {})
    assert from_file == from_command
    return getattr(from_file.run, key)


@pytest.mark.parametrize("line", TRAPS)
def test_declared_type_decides_not_yaml(folder: Path, line: str) -> None:
    value = trap(line)
    assert value == TRAPS[line]
    assert type(value) is type(TRAPS[line])


@pytest.mark.parametrize(
    "line",
    [
        "warmup_updates: 010",
        "lr: 010",
        "max_seq_len: 384.5",
        "max_seq_len: 12:30",
        "seed: 0x10",
        "seed: 1__0",
        "lr: .nan",
        "lr: nan",
        "lr: inf",
        "fp16: maybe",
        "fp16: 2",
        "language: ~",
        "language:",
        'language: ""',
        "output_dir: ~",
        'output_dir: ""',
        "limit: 0",
        "limit: none",
        "seed: [1, 2]",
        "seed: {a: 1}",
    ],
)
def test_a_value_of_the_wrong_type_is_one_line_with_key_and_value(folder: Path, line: str) -> None:
    key, _, value = line.partition(":")
    Path("traps.yaml").write_text(f"run:\n  {line}\n")
    with pytest.raises(SettingsError) as caught:
        read(TrapSettings, Path("traps.yaml"), [], {})
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert f"run.{key}" in text
    assert value.strip(' "~') in text or "values inside values" in text


@pytest.mark.shared
def test_yaml_traps_of_the_shared_case(shared: Path, folder: Path) -> None:
    case = shared / "cases" / "44-yaml-number-and-bool-traps"
    right = json.loads((case / "expect.json").read_text())["right"]
    for line in (case / "config.yaml").read_text().splitlines():
        wanted = right[line.partition(":")[0]]
        if str(wanted).startswith("error"):
            with pytest.raises(SettingsError):
                trap(line)
        elif "12:30" in str(wanted):
            assert trap(line) == "12:30"
        else:
            assert trap(line) == wanted


def test_all_mistakes_at_once_in_peoples_words(folder: Path) -> None:
    text = mistakes("train.learnig_rate=1", "data.max_length=12", "train.epochs=2.5", "x.y=1")
    assert text.splitlines()[0] == "4 mistakes in the settings:"
    assert "train.learnig_rate is not a setting; did you mean train.learning_rate?" in text
    assert "data.max_length is 12 (command line); allowed: a whole number from 16 to 8192" in text
    assert "train.epochs is 2.5 (command line); allowed: a whole number of at least 1" in text
    assert "x.y is not a setting; the sections are data, model" in text
    for jargon in ("pydantic", "validation", "Input should", "type=", "valid integer"):
        assert jargon not in text


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("train.learnig_rate", "train.learning_rate"),
        ("trian.epochs", "train.epochs"),
        ("learning_rate", "train.learning_rate"),
        ("data.batch_size", "train.batch_size"),
        ("batchsize", "train.batch_size"),
        ("sync.seed", "train.seed"),
        ("train.lr", "train.learning_rate"),
    ],
)
def test_nearest_name(folder: Path, given: str, meant: str) -> None:
    assert f"{given} is not a setting; did you mean {meant}?" in mistakes(f"{given}=1")


def test_a_name_near_to_nothing_lists_what_there_is(folder: Path) -> None:
    text = mistakes("sync.zzz=1")
    assert "sync.zzz is not a setting; sync has strategy, bucket_bytes, timeout_s" in text


def test_missing_settings_are_named_with_their_help() -> None:
    with pytest.raises(SettingsError, match="data\\.train is required") as caught:
        load_settings(None, [])
    assert "model.source is required (A hub name" in str(caught.value)


def test_mistakes_in_a_file_have_lines(folder: Path) -> None:
    text = mistakes_in_file("train:\n  epochs: 1\n  seed: 1\n  epochs: 2\n  sede: 3\n")
    assert "train.epochs is given twice, in lines 6 and 8" in text
    assert "train.sede is not a setting; did you mean train.seed? (s.yaml, line 9)" in text
    assert "data is given twice" in mistakes_in_file("data:\n  limit: 3\n")
    assert "train is a section and takes no value" in mistakes_in_file("train: 5\n")
    assert "trian is not a setting; did you mean train" in mistakes_in_file("trian:\n  seed: 1\n")
    assert in_file("train:\n").train.epochs == 2


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("data:\n\ttrain: x\n", "line 2, column 1"),
        ("data: {train: [x\n", "this is not YAML"),
        ("a: 1\n---\nb: 2\n", "line 2"),
        ("- a\n- b\n", "must hold sections"),
        ("just text", "must hold sections"),
        ("# nothing\n", "holds no settings"),
        ("a: \x07\n", "this is not YAML"),
        ("x: " + "[" * 5000, "nested too deeply"),
        ("? [a, b]\n: 1\n", "a name was expected"),
        ("data: !!python/object/apply:os.getcwd []\n", "section and takes no value"),
    ],
)
def test_bad_yaml_says_where(folder: Path, text: str, part: str) -> None:
    Path("s.yaml").write_text(text)
    message = mistakes()
    assert part in message
    assert "s.yaml" in message


def test_a_file_of_questions_is_told_from_one_of_settings(folder: Path) -> None:
    (folder / "data.json").write_text('{"data": [' + "0, " * (1 << 19) + "0]}")
    with pytest.raises(SettingsError, match="too many for one; is it a data file"):
        load_settings(folder / "data.json")


def test_settings_file_that_is_none(folder: Path) -> None:
    for name, content, reason in [
        ("nope.yaml", None, "does not exist"),
        ("empty.yaml", b"", "is empty"),
        ("blank.yaml", b" \n\n", "is empty"),
        ("latin.yaml", b"a: \xe9\xff", "not UTF-8"),
        (".", None, "is a folder"),
    ]:
        if content is not None:
            Path(name).write_bytes(content)
        with pytest.raises(SettingsError) as caught:
            load_settings(Path(name), [])
        assert reason in str(caught.value)
        assert f"{name} ({folder / name if name != '.' else folder}" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_byte_order_mark_and_json_are_fine(folder: Path) -> None:
    values = {"data": {"train": "train.json", "limit": None}, "model": {"source": "scratch"}}
    values["train"] = {"learning_rate": 3e-5}
    Path("s.yaml").write_bytes(b"\xef\xbb\xbf" + json.dumps(values).encode())
    assert load() == in_file("train:\n  learning_rate: 3e-5\n")


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        ("8MiB", 8 << 20),
        ("25MB", 25_000_000),
        ("64 kib", 65536),
        ("1.5MiB", 1572864),
        ("2048", 2048),
    ],
)
def test_sizes_have_units(folder: Path, given: str, bytes_: int) -> None:
    assert load(f"sync.bucket_bytes={given}").sync.bucket_bytes == bytes_


@pytest.mark.parametrize("given", ["8 MiBs", "1000B", "-8MiB", "1.2.3MB", "0.00001MB", "8m"])
def test_sizes_that_are_none(folder: Path, given: str) -> None:
    assert "sync.bucket_bytes" in mistakes(f"sync.bucket_bytes={given}")


def test_settings_that_do_not_fit_each_other(folder: Path) -> None:
    text = mistakes("data.stride=317", "model.scratch_heads=3")
    assert "data.stride is 317, but must be below 317" in text
    assert "model.scratch_width 128 cannot be divided among model.scratch_heads 3" in text
    assert load("data.stride=316").data.stride == 316


def test_one_path_or_a_list(folder: Path) -> None:
    one = load().data.train
    assert one == (folder / "train.json",)
    assert load("data.train=[train.json]").data.train == one
    assert load("data.train='train.json'").data.train == one
    assert "data.train is []" in mistakes("data.train=[]")
    assert "data.train is [a, [b]] (command line)" in mistakes("data.train=[a, [b]]")


def test_the_languages_are_those_that_can_be_scored() -> None:
    assert get_args(Language) == LANGUAGES


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
    assert len(keys(Settings)) <= 60
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


def test_a_setting_given_twice_on_the_command_line_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"train\.epochs is given twice"):
        load_settings(None, ["train.epochs=2", "train.epochs=3"])


@pytest.mark.usefixtures("folder")
def test_no_room_for_a_context_names_the_cause() -> None:
    assert "data.max_length is 64, but must be at least 68" in mistakes("data.max_length=64")


def test_a_rule_for_the_rate_needs_a_reference(folder: Path) -> None:
    both = load("train.lr_rule=sqrt", "train.reference_batch_size=16").train
    assert (both.lr_rule, both.reference_batch_size) == ("sqrt", 16)
    for alone in ("train.lr_rule=linear", "train.reference_batch_size=16"):
        assert "give both" in mistakes(alone)


def test_patience_needs_scores(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"without data\.dev there are no scores"):
        load("train.patience=2")
    assert load("train.patience=2", "data.dev=d.json").train.patience == 2
