"""Reading: every accepted shape gives the same examples; every other thing is one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import Answer, Example
from lightwork.tasks.extractive.reading import read_examples, texts
from tests.tasks.made import qa, squad, written

CONTEXT = "Ada Pell runs the shop in Kell."
ROW = {
    "id": "q1",
    "question": "Who?",
    "context": CONTEXT,
    "answers": {"text": ["Ada Pell"], "answer_start": [0]},
}
LISTED = {**ROW, "answers": [{"text": "Ada Pell", "answer_start": 0}]}
NESTED = squad(CONTEXT, qa("q1", LISTED["answers"]))


def problem(path: Path) -> str:
    """The message that reading ``path`` ends with."""
    with pytest.raises(DataError) as caught:
        read_examples([path])
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        NESTED,
        NESTED["data"],
        {"data": [ROW]},
        {"data": [LISTED]},
        [ROW],
        ROW,
        json.dumps(ROW) + "\n\n",
        "\ufeff" + json.dumps(NESTED),
        json.dumps(LISTED) + "\r\n",
    ],
)
def test_every_shape_gives_the_same_example(tmp_path: Path, content: Any) -> None:
    read = read_examples([written(tmp_path, content)])
    assert read.items == [Example("q1", "Who?", CONTEXT, (Answer("Ada Pell", 0),), False)]
    assert read.summary == {"examples": 1, "contexts": 1, "answers": 1, "impossible": 0}


def test_several_files_and_lines_keep_their_order(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({**ROW, "id": f"line{i}"}) for i in range(3))
    paths = [written(tmp_path, NESTED, "a.json"), written(tmp_path, lines, "b.jsonl")]
    read = read_examples(paths)
    assert [item.id for item in read] == ["q1", "line0", "line1", "line2"]
    assert [item.id for item in read_examples(paths, limit=2)] == ["q1", "line0"]
    assert len(read_examples(paths, limit=1)) == 1
    assert all(item.context is read.items[0].context for item in read), "it is kept once"
    assert list(texts(read)) == [CONTEXT, "Who?", "Who?", "Who?", "Who?"]


def test_no_character_is_translated_or_ends_a_line(tmp_path: Path) -> None:
    context = "a\r\nb\u2028c\x85d\u00a0e\u200b  Zoe\u0308 \U0001f3ad Odell\r"
    row = {**ROW, "context": context, "answers": {"text": ["Odell"], "answer_start": [20]}}
    lines = "\n".join(json.dumps({**row, "id": i}, ensure_ascii=False) for i in "xy")
    read = read_examples([written(tmp_path, lines)])
    assert [item.context for item in read] == [context, context]
    assert read.items[0].answers == (Answer("Odell", 20),)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["is empty"]),
        (" \n", ["the file is empty"]),
        ({"data": []}, ["0 questions"]),
        ({"version": "1.1", "examples": []}, ["at the top", '"data"', "version, examples"]),
        ({"data": 3}, ["at data:", "a list", "the number 3"]),
        ("3", ["at the top", "the number 3"]),
        ({"data": [{"title": "x"}]}, ["at data[0]:", "paragraphs"]),
        ({"data": [{"paragraphs": [{"context": "x"}]}]}, ["data[0].paragraphs[0]:", "with qas"]),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, ["data[0].paragraphs[0]:", "with context"]),
        ({"data": [{**ROW, "answers": "Ada"}]}, ["data[0].answers (id q1)", "the text 'Ada'"]),
        ({"data": [{**ROW, "answers": None}]}, ["data[0].answers", "null"]),
        (
            {"data": [{**ROW, "answers": {"text": ["Ada", "Pell"], "answer_start": [0]}}]},
            ["data[0].answers", "equal length", "2 text and 1 answer_start"],
        ),
        (
            {"data": [{**ROW, "answers": {"text": "Ada", "answer_start": [0]}}]},
            ["data[0].answers.text", "a list of texts"],
        ),
        (
            {"data": [{**ROW, "answers": [{"text": 1931, "answer_start": 0}]}]},
            ["data[0].answers[0].text (id q1)", "the number 1931"],
        ),
        ({"data": [{**ROW, "id": None}]}, ["data[0].id", "null"]),
        ({"data": [{**ROW, "id": " "}]}, ["data[0].id", "an id"]),
        ({"data": [{**ROW, "question": ["Who?"]}]}, ["data[0].question (id q1)", "a list of 1"]),
        ('{"id": "a", "question"\n', ["line 2, column 1", "cut off"]),
        ('{"data": [\n {"id": "q', ["line 2, column 9", "cut off"]),
        ('{"data": [\n 1,, 2]}', ["line 2, column 4"]),
        (json.dumps(ROW) + "\n" + json.dumps(ROW)[:-9], ["line 2, column", "cut off"]),
        (json.dumps(ROW) + "\n[]", ["at line 2:", "an empty list"]),
        (f'{{"data": {"9" * 5000}}}', ["not JSON that can be read", "too many digits"]),
        ("[" * 100_000, ["not JSON that can be read", "too deeply"]),
        (json.dumps(ROW) + f'\n{{"id": {"9" * 5000}}}', ["line 2: not JSON", "too many digits"]),
        (json.dumps(ROW) + "\n" + "[" * 100_000, ["line 2: not JSON", "too deeply"]),
        ('{"data": [], "data": [1]}', ["the key 'data' stands twice in one object"]),
        (json.dumps(ROW) + '\n{"id": 1, "id": 2}', ["line 2: the key 'id' stands twice"]),
        ({"data": [{**ROW, "id": 10**4000}, 3]}, ["at data[1]", "the number 3"]),
        ({"data": [{**ROW, "question": 10**4000}]}, ["data[0].question", "the number 1000"]),
        ('{"data": [{"id": NaN}]}', ["data[0]", "an object with id"]),
        (json.dumps({"data": [{**ROW, "id": "a\u001b[2J\nb", "answers": 3}]}), ["a\\x1b[2J\\nb"]),
        (json.dumps({**ROW, "question": "Who \ud83d?"}), ["at question", "character 4", "half"]),
        (b'{"data": "\xd1"}', ["not valid UTF-8 at byte 10"]),
        ("{}".encode("utf-16"), ["not valid UTF-8 at byte 0", "UTF-16"]),
        (
            json.dumps(ROW).encode() + b'\n{"id": "\xd1"}',
            [f"not valid UTF-8 at byte {len(json.dumps(ROW)) + 9};"],
        ),
        (b'\xef\xbb\xbf{\n"data": "\xd1"}', ["not valid UTF-8 at byte 14"]),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, content: Any, parts: list[str]) -> None:
    path = written(tmp_path, content)
    message = problem(path)
    assert "\n" not in message
    assert str(path) in message
    for part in parts:
        assert part in message


def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, reason in (
        ("nope.json", "does not exist"),
        ("~/nope.json", "does not exist"),
        (".", "is a folder"),
    ):
        message = problem(Path(given))
        assert repr(given) in message
        assert reason in message
        assert str(tmp_path) in message
    with pytest.raises(DataError, match="no data file"):
        read_examples([])


def test_repeated_ids_stop_with_the_first_of_them(tmp_path: Path) -> None:
    doubled = {"data": [{**ROW, "id": str(i % 9)} for i in range(18)]}
    message = problem(written(tmp_path, doubled))
    assert "ids that stand for more than one question: 9 (0, 1, 2, 3, 4 and 4 more)" in message


def test_repeated_ids_are_numbered_on_demand(tmp_path: Path) -> None:
    ids = ["a", "b", "a", "a-2", "a", "b", "c"]
    paths = [
        written(tmp_path, {"data": [{**ROW, "id": name} for name in ids]}),
        written(tmp_path, {**ROW, "id": "c"}, "more.json"),
    ]
    read = read_examples(paths, on_repeated="number")
    assert [item.id for item in read] == ["a", "b", "a-3", "a-2", "a-4", "b-2", "c", "c-2"]
    assert read.summary["renamed_ids"] == 4
    assert read.listed["renamed_ids"] == ["a", "b", "c"]
    assert {item.question for item in read} == {"Who?"}


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({**ROW, "id": f"line{i}"}) for i in range(2500))
    nested = squad(CONTEXT, qa("q1", LISTED["answers"]))
    paths = [written(tmp_path, nested, "a.json"), written(tmp_path, lines, "b.jsonl")]
    told: list[tuple[int, int]] = []
    read_examples(paths, progress=lambda done, total: told.append((done, total)))
    total = sum(path.stat().st_size for path in paths)
    assert {whole for _, whole in told} == {total}
    done = [part for part, _ in told]
    assert done == sorted(done)
    assert done[-1] == total
    assert len({part for part in done if paths[0].stat().st_size < part < total}) >= 2


def test_only_the_answers_make_a_question_impossible(tmp_path: Path) -> None:
    may = [{"text": "Kell", "answer_start": 26}]
    document = squad(
        CONTEXT,
        qa("imp-with-answer", may, is_impossible=True),
        qa("notimp-empty", [], is_impossible=False),
        qa("plausible", [], is_impossible=True, plausible_answers=may),
        qa("noflag-empty", []),
        qa("noflag-answer", may),
        qa("string-flag", [], is_impossible="false"),
        {"id": "no-answers-key", "question": "Who?", "is_impossible": True},
    )
    read = read_examples([written(tmp_path, document)])
    possible = [item.id for item in read if not item.impossible]
    assert possible == ["imp-with-answer", "noflag-answer"]
    assert read.summary["impossible"] == 5
    assert read.summary["flag_conflicts"] == 3
    assert read.listed["flag_conflicts"] == ["imp-with-answer", "notimp-empty", "string-flag"]


def test_version_1_1_must_answer_every_question(tmp_path: Path) -> None:
    message = problem(written(tmp_path, squad(CONTEXT, qa("q7", []), version="1.1")))
    assert "1 of 1 have none: q7" in message
    assert "SQuAD 1" in message


def test_blank_fields_are_counted_and_marked(tmp_path: Path) -> None:
    ada = [{"text": "Ada Pell", "answer_start": 0}]
    document = squad(
        CONTEXT,
        qa("emptyq", ada, question=""),
        qa("blankq", ada, question="\u3000 "),
        qa("padded", ada, question="\t Who? "),
        qa("emptyans", [{"text": "", "answer_start": 0}]),
        qa("blankans", [{"text": " ", "answer_start": 3}]),
        qa("one-blank-gold", [{"text": " ", "answer_start": 3}, *ada]),
    )
    document["data"] += squad(" \n\t ", qa("blankctx", []))["data"]
    read = read_examples([written(tmp_path, document)])
    assert {item.id: item.unusable for item in read} == {
        "emptyq": "blank_questions",
        "blankq": "blank_questions",
        "padded": "",
        "emptyans": "blank_answers",
        "blankans": "blank_answers",
        "one-blank-gold": "",
        "blankctx": "blank_contexts",
    }
    assert read.items[2].question == "\t Who? "
    counted = {name: read.summary[name] for name in read.listed}
    assert counted == {
        "blank_questions": 2,
        "questions_with_outer_blanks": 1,
        "blank_answers": 3,
        "blank_contexts": 1,
    }
