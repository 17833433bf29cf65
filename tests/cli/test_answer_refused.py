"""What `lightwork answer` refuses: one message, exit code 2, and most of it at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import BertConfig, BertModel

from tests.cli.conftest import WHO, Command
from tests.cli.test_without_torch import SCRIPT

pytestmark = pytest.mark.usefixtures("notes")


@pytest.fixture
def wrong(folder: Path) -> Path:
    """Files that cannot be used."""
    (folder / "empty.txt").touch()
    (folder / "blank.txt").write_text(" \n\u3000\n")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "nothing").mkdir()
    (folder / "ask.json").write_text('{"data": []}')
    (folder / "broken.json").write_text('{"data": [')
    (folder / "fresh").mkdir()
    (folder / "fresh/run.json").write_text(
        '{"format": 1, "run_id": "x", "identity": {}, "shares": 1, "attempts": 1}'
    )
    encoder = BertModel(BertConfig(hidden_size=8, num_attention_heads=1, num_hidden_layers=0))
    encoder.save_pretrained(folder / "encoder")
    return folder


NOTES = ["--context", "notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nope", WHO, *NOTES], "the folder nope ("),
        (["nope", WHO, *NOTES], "does not exist"),
        (["notes.txt", WHO, *NOTES], "is a file, not a folder"),
        (["nothing", WHO, *NOTES], "is neither a run (it has no run.json) nor a model"),
        (["fresh", WHO, *NOTES], "has no checkpoint inside yet"),
        (["encoder", WHO, *NOTES], "has no answer head yet; train it first"),
        (["MODEL", WHO], "no text to find answers in; name one with --context FILE"),
        (["MODEL", WHO, "--context", "nope.txt"], "--context: nope.txt ("),
        (["MODEL", WHO, "--context", "nothing"], "is a folder, not a file"),
        (["MODEL", WHO, "--context", "empty.txt"], "is empty"),
        (["MODEL", WHO, "--context", "blank.txt"], "there is no text in blank.txt"),
        (["MODEL", WHO, "--context", "latin.txt"], "latin.txt is not valid UTF-8 at byte 3"),
        (["MODEL", " \t", *NOTES], "the question is blank"),
        (["MODEL", "caf\udce9", *NOTES], "the question is not valid UTF-8"),
        (["MODEL", "--context", "-"], "so the question must be given on the command line"),
        (["MODEL", *NOTES, "--data", "ask.json"], "cannot be used with --context"),
        (["MODEL", WHO, "--data", "ask.json"], "cannot be used with a question"),
        (["MODEL", "--data", "nope.json"], "--data: nope.json ("),
        (["MODEL", "--data", "ask.json"], "the file has 0 questions"),
        (["MODEL", "--data", "broken.json"], "cut off"),
        (["MODEL", "--data", "ask.json", "--out", "nothing"], "is a folder; name a file in it"),
        (["MODEL", "--data", "ask.json", "--out", "notes.txt/x/y"], "lies inside a file"),
        (["MODEL", WHO, *NOTES, "--out", "x.json"], "--out belongs to --data"),
    ],
)
def test_what_it_refuses(
    wrong: Path, amber: Path, command: Command, arguments: list[str], reason: str
) -> None:
    arguments = [str(amber) if word == "MODEL" else word for word in arguments]
    ended = command("answer", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert reason in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["--top", "0"], ["--device", "gpu"], ["--top", "x"], ["more"]]
)
def test_options_that_cannot_be(amber: Path, command: Command, arguments: list[str]) -> None:
    ended = command("answer", str(amber), WHO, *NOTES, *arguments)
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_a_gpu_that_is_not_there(
    amber: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.assembly.answering.visible_gpus", lambda: 0)
    ended = command("answer", str(amber), WHO, *NOTES, "--device", "cuda")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert "no GPU is visible" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["answer", "--help"], 0, "--context"),
        (["answer", "nope", "Who?", "--context", "notes.txt"], 2, "does not exist"),
        (["answer", ".", "Who?", "--context", "notes.txt"], 2, "is neither a run"),
    ],
)
def test_mistakes_are_told_without_torch(
    folder: Path, arguments: list[str], code: int, says: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert says in ended.stdout + ended.stderr
    assert ended.stdout.endswith("heavy: []\n")
