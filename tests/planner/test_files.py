"""What is written: a settings file that loads, and nothing over something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lightwork.errors import RunError
from lightwork.planner.choices import Choice
from lightwork.planner.new_files import refuse_existing, write_new
from lightwork.planner.settings_text import settings_text, written_path
from lightwork.settings import load_settings
from lightwork.settings.describe import keys
from lightwork.settings.schema import Settings

NAMES = [
    "plain.json", "two words.json", "null", "12", "1e3", "yes", "a: b.json", "#x.json", "- x",
    "[x].json", "a,b.json", "it's \"x\".json", "数据.json", "%x.json", "@x", "back\\slash.json",
    "..x", "a:", ".5", ".inf", "2026-01-01", "0x1f", "~",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_file_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("{}")
    text = written_path("", tmp_path / name, tmp_path)
    choices = [
        Choice("data.train", (text, text), "Why."),
        Choice("data.dev", text, "Why."),
        Choice("model.source", "scratch", "Why."),
        Choice("train.learning_rate", 3e-5, "Why."),
        Choice("train.epochs", 3, "Why."),
    ]
    (tmp_path / "s.yaml").write_text(settings_text(["From " + name], choices), encoding="utf-8")
    settings = load_settings(Path("s.yaml"))
    assert settings.data.train == (tmp_path / name,) * 2
    assert settings.data.dev == (tmp_path / name,)
    assert (settings.train.learning_rate, settings.train.epochs) == (3e-5, 3)


def test_reasons_stand_above_their_settings_and_all_names_at_the_end() -> None:
    long = "word " * 60
    text = settings_text(["One", "Two\nlines"], [Choice("train.epochs", 3, long)])
    lines = text.splitlines()
    assert lines[:4] == ["# One", "# Two\ufffdlines", "", "train:"]
    assert lines[4].startswith("  # word word")
    assert all(len(line) <= 98 for line in lines)
    assert "  epochs: 3" in lines
    end = text.partition("epochs: 3")[2].replace("\n# ", " ")
    for name in keys(Settings):
        assert (name in end) is (name != "train.epochs")


def test_values_read_well() -> None:
    paths = ("../../data/a.json", "./m", "package:a/b", "a b")
    choices = [Choice("train.learning_rate", 5e-5, ""), Choice("x.y", 0.1, "")]
    text = settings_text([], [*choices, Choice("x.z", paths, "")])
    assert 'z: [../../data/a.json, ./m, package:a/b, "a b"]\n' in text
    assert "learning_rate: 5e-5\n" in text
    assert "y: 0.1\n" in text


def test_paths_lead_to_the_file_from_both_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("data", "conf/data", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("data/a.json", "conf/data/b.json", "conf/c.json"):
        (tmp_path / file).write_text("{}")
    monkeypatch.chdir(tmp_path)
    conf = tmp_path / "conf"

    def text(file: str, folder: Path = conf) -> str:
        return written_path(file, tmp_path / file, folder)

    assert text("data/a.json", tmp_path) == "data/a.json"
    assert text("data/a.json") == "../data/a.json"
    assert text("conf/data/b.json") == "data/b.json"
    assert text("conf/new.json") == "new.json"
    assert written_path(str(tmp_path / "data/a.json"), tmp_path / "data/a.json", conf) == str(
        tmp_path / "data/a.json"
    )
    # The current folder is looked in first, and has another file of that name.
    (tmp_path / "c.json").write_text("{}")
    assert text("conf/c.json") == str(tmp_path / "conf/c.json")
    assert text("conf/~new.json") == str(tmp_path / "conf/~new.json")
    # Through a link, .. leads somewhere else.
    (tmp_path / "elsewhere/deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere/deep")
    assert text("data/a.json", tmp_path / "link") == str(tmp_path / "data/a.json")


def test_all_files_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "new/a", tmp_path / "new/b"
    write_new({first: b"1", second: b"2"})
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    third = tmp_path / "new/c"
    with pytest.raises(RunError, match=r"b .*exists already.*--out"):
        write_new({third: b"3", second: b"4"})
    assert second.read_bytes() == b"2"
    assert sorted(path.name for path in first.parent.iterdir()) == ["a", "b"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail_at_second(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_at_second)
    with pytest.raises(RunError, match="b cannot be written: No space left on device"):
        write_new({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path, reason in [
        (tmp_path, "is a folder"),
        (tmp_path / "file", "exists already"),
        (tmp_path / "dangling", "exists already"),
        (tmp_path / "file/x.yaml", "cannot be written there"),
    ]:
        with pytest.raises(RunError, match=reason):
            refuse_existing([path])
    with pytest.raises(RunError, match=r"lies inside a file|is a file"):
        write_new({tmp_path / "file/deeper/x.yaml": b""})
    refuse_existing([tmp_path / "not/there/yet.yaml"])
