"""``lightwork data``: what it is given, where it writes, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightwork.tasks.extractive.reading import read_examples
from tests.report.test_dataset import FERRY, everything_wrong, gold
from tests.tasks.made import TEXTS, qa, squad, written

Command = Callable[..., Any]


@pytest.fixture
def files(folder: Path) -> Path:
    """right.json and wrong.json, in the current folder."""
    written(folder, squad(FERRY, qa("a", [gold("noon")], "When?")), "right.json")
    written(folder, everything_wrong(), "wrong.json")
    return folder


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tokenizer and a config, but no weights."""
    from lightwork.tasks.extractive.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(TEXTS, 200, folder)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return str(folder)


def test_a_report(files: Path, command: Command) -> None:
    ended = command("data", "right.json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("file ")
    assert ended.out.endswith("training   nothing in the way of training\n")
    ended = command("data", "wrong.json")
    assert (ended.code, ended.err) == (0, "")
    assert "training would stop: 5 gold answers" in ended.out
    long = "long" * 30 + ".json"
    written(files, squad(FERRY, qa("a", [gold("noon")])), long)
    assert long in command("data", long).out  # no terminal: not folded


def test_files_and_held_out_files(files: Path, command: Command) -> None:
    written(files, squad("Other.", qa("b", [])), "other.json")
    ended = command("data", "right.json", "other.json", "--dev", "right.json", "--json")
    entry = json.loads(ended.out)
    assert [Path(name).name for name in entry["train"]["files"]] == ["right.json", "other.json"]
    assert (entry["train"]["questions"], entry["dev"]["questions"]) == (2, 1)
    assert entry["overlap"]["shared_questions"] == 1


def test_windows_by_a_tokenizer(files: Path, command: Command, tokenizer: str) -> None:
    ended = command("data", "right.json", "--model", tokenizer, "--json")
    windows = json.loads(ended.out)["windows"]
    sizes = [windows[name] for name in ("max_length_tokens", "stride_tokens", "batch_windows")]
    assert (*sizes, windows["max_question_length_tokens"]) == (384, 128, 32, 64)
    options = "--max-length 24 --stride 4 --max-question-length 8 --batch-size 3".split()
    ended = command("data", "right.json", "--model", tokenizer, "--json", *options)
    windows = json.loads(ended.out)["windows"]
    sizes = [windows[name] for name in ("max_length_tokens", "stride_tokens", "batch_windows")]
    assert (*sizes, windows["max_question_length_tokens"]) == (24, 4, 3, 8)
    assert windows["windows"] > 1
    assert (
        "of at most 24 tokens" in command("data", "right.json", "--model", tokenizer, *options).out
    )


def test_writing_mends(files: Path, command: Command) -> None:
    ended = command("data", "wrong.json", "--write", "sub/clean.json")
    assert ended.code == 0
    told = " ".join(ended.out.split())
    assert f"{files / 'sub/clean.json'}: 10 questions with 9 answers" in told
    assert told.endswith(f"{files / 'sub/clean.json'} can be trained on")
    assert len(read_examples([files / "sub/clean.json"])) == 10
    ended = command(
        "data", "wrong.json", "--write", "clean.json", "--on-mismatch", "drop", "--json"
    )
    entry = json.loads(ended.out)["written"]
    assert (entry["questions"], entry["left_out_unplaced_questions"]) == (7, 5)


def test_repairing_without_writing(files: Path, command: Command) -> None:
    ended = command("data", "wrong.json", "--on-mismatch", "repair", "--json")
    assert json.loads(ended.out)["train"]["noticed"]["repaired_answers"]["count"] == 3
    ended = command("data", "wrong.json", "--json")
    assert "repaired_answers" not in json.loads(ended.out)["train"]["noticed"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope.json"], "does not exist"),
        (["right.json", "--dev", "nope.json"], "--dev: nope.json"),
        (["right.json", "--write", "right.json", "--overwrite"], "one of the files to read"),
        (["right.json", "--write", "link.json", "--overwrite"], "one of the files to read"),
        (["right.json", "--write", "there.json"], "add --overwrite"),
        (["right.json", "--write", "folder.json"], "is a folder"),
        (["right.json", "--write", "."], "does not end in .json"),
        (["right.json", "--write", "out.csv"], "out.csv does not end in .json"),
        (["right.json", "--write", "out.json.gz"], "does not end in .json"),
        (["right.json", "--write", f"{'a' * 300}.json"], "File name too long"),
        (["right.json", "--write", f"{'a' * 248}.json"], "File name too long"),
        (["right.json", "--write", f"{'a' * 300}/out.json"], "File name too long"),
        (["right.json", "--write", "~nobody-there/out.json"], "cannot be written"),
        (["right.json", "--on-mismatch", "stop"], "stops at none; name repair or drop"),
        (["right.json", "--on-mismatch", "mend"], "'mend' is neither repair nor drop"),
        (["blank.json", "--write", "out.json"], "none of 1 question can be written: 1 with"),
        (["right.json", "--write", "there.json/out.json"], "not a folder"),
        (["right.json", "--stride", "3"], "--stride counts tokens"),
        (["right.json", "--batch-size", "3"], "--batch-size counts tokens"),
        (["right.json", "--model", "scratch"], "has no tokenizer"),
        (["right.json", "--model", "./nowhere"], "does not exist"),
        (["broken.json"], "not JSON"),
    ],
)
def test_refused_in_one_line(
    files: Path, command: Command, arguments: list[str], says: str
) -> None:
    (files / "there.json").write_text("kept")
    (files / "folder.json").mkdir()
    written(files, squad(FERRY, qa("a", [gold("noon")], " ")), "blank.json")
    (files / "broken.json").write_text('{"data": [')
    (files / "link.json").symlink_to("right.json")
    before = (files / "right.json").read_bytes()
    ended = command("data", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert ended.err.count("\n") == 1
    assert (files / "there.json").read_text() == "kept"
    assert (files / "right.json").read_bytes() == before


def test_sizes_without_room_are_refused(files: Path, command: Command, tokenizer: str) -> None:
    ended = command("data", "right.json", "--model", tokenizer, "--max-length", "20")
    assert ended.code == 2
    assert "leaves" in ended.err
    ended = command("data", "right.json", "--model", tokenizer, "--max-length", "513")
    assert (ended.code, ended.out) == (2, "")
    assert "data.max_length 513 is more than the 512 tokens this model has" in ended.err
    assert ended.err.count("\n") == 1
    assert command("data", "right.json", "--model", tokenizer, "--max-length", "512").code == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("--stride", "-1"), ("--max-length", "0"), ("--max-question-length", "0")],
)
def test_sizes_have_a_least_value(files: Path, command: Command, option: str, value: str) -> None:
    ended = command("data", "right.json", "--model", "m", option, value)
    assert ended.code == 2
    assert f"Invalid value for '{option}'" in ended.err


def test_overwrite(files: Path, command: Command) -> None:
    (files / "there.json").write_text("old")
    assert command("data", "right.json", "--write", "there.json", "--overwrite").code == 0
    assert len(read_examples([files / "there.json"])) == 1


def test_a_report_needs_no_model_library(files: Path) -> None:
    script = (
        "import sys; sys.argv = ['lightwork', 'data', 'right.json']\n"
        "from lightwork.cli.main import run\n"
        "try: run()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('heavy:', sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=files,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.endswith("nothing in the way of training\nheavy: []\n")
