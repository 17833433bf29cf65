"""What is said of settings that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import SettingsError
from lightwork.settings import load_settings
from tests.settings.given import in_file, load, mistakes, mistakes_in_file


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
    wanted = "sync.zzz is not a setting; sync has strategy, bucket_bytes, overlap, rows, timeout_s"
    assert wanted in text


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


def test_settings_that_do_not_fit_each_other(folder: Path) -> None:
    text = mistakes("data.stride=317", "model.scratch_heads=3")
    assert "data.stride is 317, but must be below 317" in text
    assert "model.scratch_width 128 cannot be divided among model.scratch_heads 3" in text
    assert load("data.stride=316").data.stride == 316


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
