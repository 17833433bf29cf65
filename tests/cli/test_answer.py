"""What `lightwork answer` says about a text and a file of questions, and where it says it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.assembly.made import filler, pointing_model, says
from tests.cli.conftest import AMBER_START as START
from tests.cli.conftest import WHO, Command

pytestmark = pytest.mark.usefixtures("notes")


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that finds it three times less likely than no answer."""
    points = {"amber": (9.0, 9.0), "[CLS]": (9.0, 9.0 + 1.0986)}
    return says(pointing_model(tmp_path_factory.mktemp("doubt"), points), impossible=True)


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def entry(text: str, start: int, line: int) -> dict[str, Any]:
    return {"text": text, "start": start, "end": start + len(text), "line": line}


def without_probability(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in one.items() if k != "probability"} for one in answers]


def test_lines_for_a_pipe(amber: Path, command: Command) -> None:
    ended = command("answer", str(amber), "--context", "notes.txt", WHO)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == f"100.0%  line 3, characters {START}-{START + 5} of the text  amber"
    assert len(lines) == 3
    assert "amber" not in "".join(lines[1:]), "no two answers share a word"
    one = command("answer", str(amber), WHO, "--context", "notes.txt", "--top", "1")
    assert one.out == lines[0] + "\n"


def test_json_is_one_object_and_nothing_else(amber: Path, command: Command) -> None:
    arguments = ("--context", "notes.txt", WHO, "--json", "--top", "2", "--device", "cpu")
    ended = command("answer", str(amber), *arguments)
    assert (ended.code, ended.err, ended.out.count("\n")) == (0, "", 1)
    told = json.loads(ended.out)
    assert told.keys() == {"question", "answers"}
    assert told["question"] == WHO
    assert without_probability(told["answers"])[0] == entry("amber", START, 3)
    assert len(told["answers"]) == 2
    assert told["answers"][0]["probability"] == pytest.approx(1, abs=1e-4)


def test_the_text_from_standard_input(
    amber: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchanged: no newline is translated; only a byte-order mark goes."""
    piped(monkeypatch, "\ufeff\U0001f3ad\r\n\r\nw1 amber".encode())
    ended = command("answer", str(amber), "--context", "-", WHO, "--json", "--top", "1")
    assert without_probability(json.loads(ended.out)["answers"]) == [entry("amber", 8, 3)]


def test_no_answer_is_named(doubtful: Path, command: Command) -> None:
    arguments = ("answer", str(doubtful), "--context", "notes.txt", WHO, "--top", "2")
    assert command(*arguments).out == (
        f" 75.0%  (no answer)\n 25.0%  line 3, characters {START}-{START + 5} of the text  amber\n"
    )
    null = json.loads(command(*arguments, "--json").out)["answers"][0]
    assert null.pop("probability") == pytest.approx(0.75, abs=1e-3)
    assert null == {"text": "", "start": -1, "end": -1, "line": -1}


def test_questions_from_a_pipe_one_a_line(
    amber: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("answer", str(amber), "--context", "notes.txt", "--top", "1")
    content = "Who is it ?\r\n\n  \nWas it 琥珀?".encode()
    piped(monkeypatch, content)
    told = [json.loads(line) for line in command(*arguments, "--json").out.splitlines()]
    assert [one["question"] for one in told] == ["Who is it ?", "Was it 琥珀?"]
    assert [one["answers"][0]["start"] for one in told] == [START, START]
    piped(monkeypatch, content)
    answer = f"100.0%  line 3, characters {START}-{START + 5} of the text  amber"
    lines = command(*arguments).out.splitlines()
    assert lines == ["Who is it ?", answer, "Was it 琥珀?", answer]
    piped(monkeypatch, b"Who?\nWho \xff?\n")
    ended = command(*arguments)
    assert (ended.code, ended.out.splitlines()) == (2, ["Who?", answer])
    assert ended.err.startswith("error: standard input: line 2 is not valid UTF-8")


def unlabelled(folder: Path, count: int = 3) -> Path:
    """Questions of version 1.1 without gold answers; the last context is blank."""
    paragraphs = [
        {"context": f"{filler(0, 60 * n)} amber", "qas": [{"id": f"q{n}", "question": WHO}]}
        for n in range(count)
    ]
    paragraphs.append({"context": " ", "qas": [{"id": "blank", "question": WHO}]})
    path = folder / "ask.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    return path


def test_a_file_of_questions(amber: Path, folder: Path, command: Command) -> None:
    ask = unlabelled(folder)
    row = {"id": "row", "question": WHO, "context": "w1 amber", "answers": "of no shape"}
    (folder / "more.jsonl").write_text(json.dumps(row))
    files = ("--data", str(ask), "--data", "more.jsonl")
    ended = command("answer", str(amber), *files)
    assert (ended.code, ended.err) == (0, "")
    best = {"q0": "amber", "q1": "amber", "q2": "amber", "blank": "", "row": "amber"}
    assert json.loads(ended.out) == best
    assert list(json.loads(ended.out)) == list(best)
    assert json.loads(command("answer", str(amber), *files, "--top", "1").out) == best
    many = json.loads(command("answer", str(amber), *files, "--json").out)
    assert many == json.loads(command("answer", str(amber), *files, "--top", "3").out)
    assert len(many["q2"]) == 3
    start = len(filler(0, 120)) + 1
    first = dict(many["q2"][0])
    assert first.pop("probability") == pytest.approx(1, abs=1e-4)
    assert first == {"text": "amber", "start": start, "end": start + 5}
    assert many["blank"] == [{"text": "", "probability": 1.0, "start": -1, "end": -1}]
    (one,) = json.loads(command("answer", str(amber), *files, "--json", "--top", "1").out)["q0"]
    assert one["text"] == "amber"


def test_answers_to_a_file_appear_whole_and_replace_nothing(
    amber: Path, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = str(unlabelled(folder, 1))
    arguments = ("answer", str(amber), "--data", ask, "--out", "deep/answers.json")
    ended = command(*arguments)
    out = folder / "deep/answers.json"
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == f"2 questions answered, written to {out}\n"
    assert json.loads(out.read_text()) == {"q0": "amber", "blank": ""}
    assert list(out.parent.iterdir()) == [out]
    out.write_text("mine")
    ended = command(*arguments)
    assert (ended.code, out.read_text()) == (2, "mine")
    assert "exists already; add --overwrite" in ended.err

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        ended = command(*arguments, "--overwrite")
    assert (ended.code, out.read_text()) == (2, "mine")
    assert f"cannot write {out} (No space left on device)" in ended.err
    assert list(out.parent.iterdir()) == [out]
    assert command(*arguments, "--overwrite").code == 0
    assert json.loads(out.read_text())["q0"] == "amber"
