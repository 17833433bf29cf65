"""``lightwork init``: from an unfamiliar file to settings that train."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from lightwork.settings import check_paths, load_settings
from tests.planner.made import article, by_id
from tests.tasks.made import written

Command = Callable[..., Any]
FILLER = "The street was quiet and nobody came by until the evening . "


@pytest.fixture(autouse=True)
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of the hub, and a hub that must not be asked."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def data(articles: int = 20, questions: int = 3, length: int = 1) -> dict[str, Any]:
    """Questions in English about people in one street."""
    made = []
    for number in range(articles):
        context = f"Anna{number} has a red door . {FILLER * length}"
        made.append(article(f"T{number}", (context, questions)))
        for question in made[-1]["paragraphs"][0]["qas"]:
            question["question"] = f"Who has a door in the street of number {number} ?"
    return {"version": "1.1", "data": made}


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def next_commands(out: str) -> list[list[str]]:
    """The commands that the output tells to type."""
    return [shlex.split(line) for line in re.findall(r"^  (lightwork .*)$", out, re.MULTILINE)]


def test_from_one_file_to_settings_that_load(folder: Path, command: Command) -> None:
    mine = written(folder, data(), "mine.json")
    before = content(folder)
    ended = command("init", "--train", "mine.json", "--model", "scratch")
    assert (ended.code, ended.err) == (0, "")
    new = content(folder).keys() - before.keys()
    assert new == {"mine.yaml", "mine.train.json", "mine.dev.json"}
    assert {name: content(folder)[name] for name in before} == before
    settings = load_settings(folder / "mine.yaml", ["data.cache=cache"])
    check_paths(settings)
    assert settings.data.train == (folder / "mine.train.json",)
    assert settings.data.dev == (folder / "mine.dev.json",)
    train, dev = by_id(*settings.data.train), by_id(*settings.data.dev)
    assert {**train, **dev} == by_id(mine)
    assert settings.data.max_length == 128
    assert settings.train.learning_rate == 1e-3
    assert settings.model.scratch_vocabulary == 1000


def test_what_it_says(folder: Path, command: Command) -> None:
    written(folder, data(), "mine.json")
    out = command("init", "--train", "mine.json", "--model", "scratch").out
    assert "mine.json: 60 questions about 20 contexts" in out
    assert re.search(r"^language +English$", out, re.MULTILINE)
    assert "45 questions to train on, 15 held out; split by article: 5 of 20" in out
    assert "mine.train.json, mine.dev.json, mine.yaml" in out
    assert "\x1b" not in out
    dry, train = next_commands(out)
    assert train[:3] == ["lightwork", "train", "mine.yaml"]
    assert train[3] == "--ranks"
    assert dry == [*train, "--dry-run"]


def test_what_the_settings_say(folder: Path, command: Command) -> None:
    written(folder, data(), "mine.json")
    command("init", "--train", "mine.json")
    text = (folder / "mine.yaml").read_text()
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if re.match(r"  \w+: ", line):
            assert lines[index - 1].startswith("  # "), line
    assert "45 questions" in text
    assert "settings.yaml explains all" in text
    assert "google-bert/bert-base-uncased" in text
    assert len(lines) < 70


@pytest.mark.slow
def test_the_settings_for_scratch_prepare(folder: Path, command: Command) -> None:
    from lightwork.assembly.preparing import prepare

    written(folder, data(), "mine.json")
    out = command("init", "--train", "mine.json", "--model", "scratch").out
    prepared = prepare(load_settings(folder / "mine.yaml", ["data.cache=cache"]))
    assert prepared.dev is not None
    assert len(prepared.dev) >= 15
    (windows,) = re.findall(r"about (\d+) windows to train on", " ".join(out.split()))
    assert int(windows) == len(prepared.train)


def test_given_files_are_named_as_seen_from_the_settings(folder: Path, command: Command) -> None:
    for name, count in (("a", 8), ("b", 6), ("held", 3)):
        (folder / "sets").mkdir(exist_ok=True)
        made = data(count)
        for entry in made["data"]:
            for question in entry["paragraphs"][0]["qas"]:
                question["id"] = name + question["id"]
        written(folder / "sets", made, f"{name}.json")
    arguments = ("--train", "sets/a.json", "--train", "sets/b.json", "--dev", "sets/held.json")
    ended = command("init", *arguments, "--out", "conf/new.yaml", "--model", "scratch")
    assert ended.code == 0
    assert [path.name for path in (folder / "conf").iterdir()] == ["new.yaml"]
    settings = load_settings(folder / "conf/new.yaml")
    check_paths(settings)
    assert settings.data.train == (folder / "sets/a.json", folder / "sets/b.json")
    assert settings.data.dev == (folder / "sets/held.json",)
    assert "../sets/a.json" in (folder / "conf/new.yaml").read_text()
    assert "3 of its contexts are trained on too" in ended.out
    assert next_commands(ended.out)[1][2] == "conf/new.yaml"


def test_a_difficult_name(folder: Path, command: Command) -> None:
    (folder / "my data").mkdir()
    written(folder / "my data", data(), "it's [bold]数据[b].json")
    ended = command("init", "--train", "my data/it's [bold]数据[b].json", "--model", "scratch")
    assert ended.code == 0
    name = "it's [bold]数据[b].yaml"
    assert next_commands(ended.out)[1][2] == name
    check_paths(load_settings(Path(name)))


@pytest.mark.parametrize("taken", ["mine.yaml", "mine.dev.json", "mine.train.json"])
def test_nothing_is_overwritten(folder: Path, command: Command, taken: str) -> None:
    written(folder, data(), "mine.json")
    (folder / taken).write_text("precious")
    before = content(folder)
    ended = command("init", "--train", "mine.json", "--model", "scratch")
    assert ended.code == 2
    assert taken in ended.err
    assert "--out" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert content(folder) == before
    ended = command("init", "--train", "mine.json", "--model", "scratch", "--out", "other.yaml")
    assert ended.code == 0
    assert content(folder)[taken] == b"precious"


def misplaced() -> dict[str, Any]:
    made = data()
    made["data"][7]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
    return made


def repeated() -> dict[str, Any]:
    made = data()
    made["data"][7]["paragraphs"][0]["qas"][0]["id"] = "T3-0-0"
    return made


@pytest.mark.parametrize(
    ("made", "arguments", "says"),
    [
        (repeated(), [], "T3-0-0"),
        (data(1, 4), [], "all 4 questions are about one context"),
        ({"data": [{"paragraphs": [{"text": "x"}]}]}, [], "expected"),
        (data(), ["--dev", "mine.json"], "is a training file too"),
        (data(), ["--dev", "nope.json"], "--dev: nope.json"),
        (data(), ["--train", "nope.json"], "--train: nope.json"),
        (data(), ["--model", "./nope"], "nope"),
        (data(), ["--model", "package:nope/model"], "no installed package 'nope'"),
        (data(), ["--model", "two words"], "model.source"),
        (data(), ["--out", "."], "is a folder"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    folder: Path, command: Command, made: Any, arguments: list[str], says: str
) -> None:
    written(folder, made, "mine.json")
    before = content(folder)
    ended = command("init", "--train", "mine.json", *arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert says in ended.err
    assert content(folder) == before


def test_a_model_that_must_be_downloaded(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(folder, data(), "mine.json")
    out = " ".join(command("init", "--train", "mine.json").out.split())
    assert "google-bert/bert-base-uncased, not on this machine" in out
    assert "will be downloaded at the first start (about 440 MB)" in out
    assert "only about right" in out
    assert "model.source=scratch train.learning_rate=1e-3" in out
    settings = load_settings(Path("mine.yaml"), ["model.source=scratch"])
    check_paths(settings)
    assert load_settings(Path("mine.yaml")).model.source == "google-bert/bert-base-uncased"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = command("init", "--train", "mine.json", "--out", "b.yaml", "--model", "some/model").out
    out = " ".join(out.split())
    assert "some/model, not on this machine, and HF_HUB_OFFLINE forbids the download" in out


def test_ranks_are_the_gpus(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.cli.init.visible_gpus", lambda _: 2)
    monkeypatch.setattr("lightwork.cli.init._gpu_bytes", lambda: 8 << 30)
    written(folder, data(), "mine.json")
    out = command("init", "--train", "mine.json").out
    assert next_commands(out)[1] == ["lightwork", "train", "mine.yaml", "--ranks", "2"]
    assert "one for each of 2 GPUs" in out
    assert load_settings(Path("mine.yaml")).train.micro_batch_tokens == 2048


def test_odd_questions_are_named(folder: Path, command: Command) -> None:
    made = data()
    del made["version"]
    made["data"][2]["paragraphs"][0]["qas"][0]["is_impossible"] = True
    made["data"][3]["paragraphs"][0]["qas"][1]["question"] = "  "
    made["data"][4]["paragraphs"][0]["qas"][1]["answers"] = []
    written(folder, made, "mine.json")
    out = command("init", "--train", "mine.json", "--model", "scratch").out
    assert "1 of them without an answer" in out
    assert "is_impossible" in out
    assert "T2-0-0" in out
    assert "1 blank question (not trained on" in out
    assert "T3-0-1" in out


def test_a_pattern_gives_all_its_files(folder: Path, command: Command) -> None:
    for part in (0, 1):
        made = data()
        made["data"] = made["data"][part::2]
        written(folder, made, f"part-{part}.json")
    written(folder, data(), "held.json")
    arguments = ("init", "--train", "part-*.json", "--model", "scratch", "--out", "x.yaml")
    assert command(*arguments, "--dev", "held.json").code == 0
    names = [path.name for path in load_settings(Path("x.yaml")).data.train]
    assert names == ["part-0.json", "part-1.json"]
    ended = command(*arguments[:-1], "y.yaml", "--dev", "part-*.json")
    assert ended.code == 2
    assert "--dev: the pattern matches 2 files" in ended.err


def test_misplaced_answers_are_repaired_by_the_settings(folder: Path, command: Command) -> None:
    written(folder, misplaced(), "mine.json")
    out = command("init", "--train", "mine.json", "--model", "scratch").out
    assert "1 gold answer moved to the only place" in out
    settings = load_settings(Path("mine.yaml"))
    assert settings.data.on_mismatch == "repair"
    assert "get the only place where their text stands" in Path("mine.yaml").read_text()
