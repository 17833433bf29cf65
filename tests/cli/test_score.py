"""``lightwork score``: a file of predictions against gold answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

CONTEXT = "Nell sold the figs to Omar in Lund."
GOLDS = {"p1": ["Nell"], "p2": ["Omar"], "p3": ["Lund"], "p4": []}
RIGHT = {"p1": "nell", "p2": "Omar", "p3": "in Lund", "p4": ""}


def write(name: str, content: Any) -> None:
    Path(name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def questions(golds: dict[str, list[str]], context: str = CONTEXT) -> dict[str, Any]:
    """A file of questions whose answers stand at their place, or at 0."""
    qas = [
        {
            "id": name,
            "question": "Who?",
            "answers": [
                {"text": text, "answer_start": max(context.find(text), 0)} for text in texts
            ],
        }
        for name, texts in golds.items()
    ]
    return {"version": "2.0", "data": [{"paragraphs": [{"context": context, "qas": qas}]}]}


@pytest.fixture
def files(folder: Path) -> Path:
    """``q.json``, ``p.json`` and ``na.json`` in the current folder."""
    write("q.json", questions(GOLDS))
    write("p.json", RIGHT)
    write("na.json", {"p1": 0.1, "p2": 0.5, "p3": 0.6, "p4": 0.9})
    return folder


def test_a_table_and_the_definition(files: Path, command: Command) -> None:
    ended = command("score", "p.json", "q.json")
    assert (ended.code, ended.err) == (0, "")
    definition, title, *rows = ended.out.splitlines()
    assert definition == "scored as English (SQuAD 2.0)"
    assert title.split() == ["questions", "exact", "match", "F1"]
    assert [row.split()[-3:] for row in rows] == [
        ["4", "75.00", "91.67"],
        ["3", "66.67", "88.89"],
        ["1", "100.00", "100.00"],
    ]


def test_json_has_all_digits(files: Path, command: Command) -> None:
    ended = command("score", "p.json", "q.json", "--json")
    found = json.loads(ended.out)
    assert found["f1"] == pytest.approx(100 * (3 + 2 / 3) / 4, abs=1e-12)
    assert (found["NoAns_total"], found["missing_ids"], found["unknown_ids"]) == (1, [], [])
    assert found["definition"] == "scored as English (SQuAD 2.0)"


def test_several_files_are_one_set(files: Path, command: Command) -> None:
    write("a.json", questions({"p1": ["Nell"]}))
    write("b.json", questions({"p2": ["Omar"]}))
    write("p.json", {"p1": "Nell", "p2": "Lund"})
    assert json.loads(command("score", "p.json", "a.json", "b.json", "--json").out)["f1"] == 50.0


def test_missing_and_unknown_ids_are_told_after_the_scores(files: Path, command: Command) -> None:
    write("p.json", {"p1": "Nell", "p2": "Lund", "p3": None, "p4": "", "zz": "stray"})
    ended = command("score", "p.json", "q.json")
    assert ended.code == 1
    rows = ended.out.splitlines()
    assert rows[2].split() == ["all", "4", "50.00", "50.00"]
    assert rows[-1].startswith("predicted only, as the official script")
    assert rows[-1].split()[-3:] == ["3", "66.67", "66.67"]
    assert "questions without a prediction, which count as wrong: 1 (p3)" in ended.err
    assert "predictions without a question: 1 (zz)" in ended.err
    found = json.loads(command("score", "p.json", "q.json", "--json").out)
    assert (found["missing_ids"], found["unknown_ids"]) == (["p3"], ["zz"])


def test_many_ids_are_counted_and_five_are_shown(files: Path, command: Command) -> None:
    write("p.json", {**RIGHT, **{f"x{number}": "" for number in range(7)}})
    ended = command("score", "p.json", "q.json")
    assert "predictions without a question: 7 (x0, x1, x2, x3, x4 and 2 more)" in ended.err


def test_the_threshold_is_strict(files: Path, command: Command) -> None:
    ended = command(
        "score", "p.json", "q.json", "--na-prob", "na.json", "--threshold", "0.5", "--json"
    )
    found = json.loads(ended.out)
    assert found["HasAns_exact"] == pytest.approx(200 / 3)  # p3 is cut, p2 is not
    assert found["HasAns_f1"] == pytest.approx(200 / 3)
    # The sweep is over the predictions as they are.
    assert (found["best_f1"], found["best_f1_thresh"]) == (pytest.approx(275 / 3), 0.6)
    assert (found["best_exact"], found["best_exact_thresh"]) == (75.0, 0.5)
    table = command("score", "p.json", "q.json", "--na-prob", "na.json").out.splitlines()
    assert table[-1] == "best thresholds: exact match 75.00 at 0.5, F1 91.67 at 0.6"


def test_equal_numbers_are_warned_of(files: Path, command: Command) -> None:
    write("na.json", dict.fromkeys(GOLDS, 0))
    ended = command("score", "p.json", "q.json", "--na-prob", "na.json")
    assert ended.code == 0
    assert "warning: all numbers of --na-prob are equal" in ended.err
    write("na.json", {**dict.fromkeys(GOLDS, 0), "p4": 1})
    assert command("score", "p.json", "q.json", "--na-prob", "na.json").err == ""


def test_a_text_for_no_answer(files: Path, command: Command) -> None:
    write("p.json", {**RIGHT, "p4": " unanswerable\n"})
    assert json.loads(command("score", "p.json", "q.json", "--json").out)["NoAns_f1"] == 0.0
    ended = command("score", "p.json", "q.json", "--no-answer-text", "unanswerable", "--json")
    assert json.loads(ended.out)["NoAns_f1"] == 100.0


def test_gold_answers_count_wherever_they_stand(files: Path, command: Command) -> None:
    write("q.json", questions({"p1": ["somewhere else"]}))
    write("p.json", {"p1": "somewhere else"})
    found = json.loads(command("score", "p.json", "q.json", "--json").out)
    assert (found["f1"], found["total"]) == (100.0, 1)
    assert "HasAns_f1" not in found


def test_the_language_may_be_told(files: Path, command: Command) -> None:
    write("q.json", questions({"c": ["山城大剧院"]}, "unused"))
    write("p.json", {"c": "大剧院"})
    assert command("score", "p.json", "q.json").out.startswith("scored as English (SQuAD 1.1)")
    ended = command("score", "p.json", "q.json", "--language", "zh")
    assert ended.out.startswith("scored as Chinese (CMRC 2018)")
    assert ended.out.split()[-1] == "75.00"
    ended = command("score", "p.json", "q.json", "--language", "klingon")
    assert (ended.code, ended.out) == (2, "")
    assert "--language: 'klingon' is not one of auto, en, zh" in ended.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ('{"p1": "Nell"', "not JSON"),
        ('["Nell"]', "expected an object with the id of each question and its predicted text"),
        ('{"p1": ["Nell"]}', "at p1: expected a text, found a list of 1"),
        ('{"p1": [{"text": "Nell"}]}', "at p1: expected a text"),
        ('{"p1": 1912}', "at p1: expected a text, found the number 1912"),
        ('{"p1": "a", "p1": "b"}', "p1"),
        ('{"p1": "\\ud800"}', "surrogate"),
        ('{"\\ud800": "Nell"}', "surrogate"),
        (b"\xff\xfe{", "not valid UTF-8"),
    ],
)
def test_other_files_of_predictions_are_refused(
    files: Path, command: Command, content: str | bytes, told: str
) -> None:
    Path("p.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = command("score", "p.json", "q.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert "p.json" in ended.err
    assert told in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([0.1], "expected an object with the id of each question and a number"),
        ({"p1": "0.1"}, "at p1: expected a finite number"),
        ({"p1": True}, "at p1: expected a finite number"),
        ({"p1": float("nan")}, "at p1: expected a finite number"),
        ({"p1": 0.1}, "predictions without a number here: 3 (p2, p3, p4)"),
    ],
)
def test_other_files_of_numbers_are_refused(
    files: Path, command: Command, content: Any, told: str
) -> None:
    write("na.json", content)
    ended = command("score", "p.json", "q.json", "--na-prob", "na.json")
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err


def test_a_threshold_needs_numbers(files: Path, command: Command) -> None:
    ended = command("score", "p.json", "q.json", "--threshold", "0.5")
    assert (ended.code, ended.out) == (2, "")
    assert "--na-prob" in ended.err


def test_a_best_threshold_can_be_typed_back(files: Path, command: Command) -> None:
    numbers = json.loads((files / "na.json").read_text())
    write("na.json", {name: number / 3 + 1e-9 for name, number in numbers.items()})
    told = command("score", "p.json", "q.json", "--na-prob", "na.json").out.splitlines()[-1]
    best, threshold = told.rsplit("F1 ", 1)[1].split(" at ")
    arguments = ("score", "p.json", "q.json", "--na-prob", "na.json", "--json")
    again = json.loads(command(*arguments, "--threshold", threshold).out)
    assert f"{again['f1']:.2f}" == best


def test_no_threshold_is_better_than_never_answering(files: Path, command: Command) -> None:
    numbers = json.loads((files / "na.json").read_text())
    write("p.json", dict.fromkeys(numbers, "something else"))
    ended = command("score", "p.json", "q.json", "--na-prob", "na.json")
    assert "by never answering" in ended.out.splitlines()[-1]
    assert " at 0" not in ended.out


def test_numbers_of_nothing_are_told(files: Path, command: Command) -> None:
    numbers = json.loads((files / "na.json").read_text())
    write("na.json", {**numbers, "zzz": 0.5})
    ended = command("score", "p.json", "q.json", "--na-prob", "na.json")
    assert ended.code == 0
    assert "numbers without a prediction: 1 (zzz)" in ended.err


@pytest.mark.parametrize("threshold", ["nan", "inf"])
def test_a_threshold_is_a_number(files: Path, command: Command, threshold: str) -> None:
    ended = command("score", "p.json", "q.json", "--na-prob", "na.json", "--threshold", threshold)
    assert (ended.code, ended.out) == (2, "")
    assert "is no number to compare with" in ended.err


def test_questions_of_the_hub_are_fetched(
    files: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fetch(name: str, cache: Path) -> Path:
        asked.append(name)
        return files / "q.json"

    monkeypatch.setattr("lightwork.tasks.extractive.formats.hub.fetch", fetch)
    ended = command("score", "p.json", "hub:owner/set#test")
    assert (ended.code, asked) == (0, ["hub:owner/set#test"])
    assert ended.out == command("score", "p.json", "q.json").out


@pytest.mark.parametrize("arguments", [("nope.json", "q.json"), ("p.json", "nope.json")])
def test_files_that_are_not_there(
    files: Path, command: Command, arguments: tuple[str, str]
) -> None:
    ended = command("score", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "nope.json" in ended.err
    assert "does not exist" in ended.err


@pytest.mark.shared
def test_lost_and_stray_predictions_of_a_known_table(
    shared: Path, folder: Path, command: Command
) -> None:
    case = next((shared / "cases").glob("27-*"))
    ended = command("score", str(case / "predictions.json"), str(case / "input.json"))
    assert ended.code == 1
    assert "1 (p3)" in ended.err
    assert "1 (zz)" in ended.err
    assert ended.out.splitlines()[-1].split()[-3:] == ["3", "66.67", "66.67"]


@pytest.mark.shared
def test_the_threshold_of_a_known_table(shared: Path, folder: Path, command: Command) -> None:
    case = next((shared / "cases").glob("28-*"))
    names = [str(case / f"{name}.json") for name in ("predictions", "input", "na_prob")]
    ended = command("score", *names[:2], "--na-prob", names[2], "--threshold", "0.5", "--json")
    found, expected = json.loads(ended.out), json.loads((case / "expect.json").read_bytes())
    assert round(found["exact_match"], 4) == expected["threshold_0.5"]["exact"]
    assert round(found["f1"], 4) == expected["threshold_0.5"]["f1"]
    assert [round(found["best_f1"], 4), found["best_f1_thresh"]] == expected["best_f1"]


@pytest.mark.shared
def test_generated_answers_of_a_known_table(shared: Path, folder: Path, command: Command) -> None:
    case = next((shared / "cases").glob("31-*"))
    facts = json.loads((case / "input.json").read_bytes())
    expected = json.loads((case / "expect.json").read_bytes())
    write("q.json", questions(facts["gold"], "The north gate is open."))
    texts = {name: text or "unanswerable" for name, text in expected["texts"].items()}
    write("p.json", texts)
    ended = command("score", "p.json", "q.json", "--no-answer-text", "unanswerable", "--json")
    found = json.loads(ended.out)
    assert round(found["exact_match"], 4) == expected["exact"]
    assert round(found["f1"], 4) == expected["f1"]


def test_nothing_heavy_is_imported(files: Path) -> None:
    script = (
        "import sys; sys.argv = ['lightwork', 'score', 'p.json', 'q.json']\n"
        "from lightwork.cli.main import app\n"
        "app(standalone_mode=False)\n"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == "scored as English (SQuAD 2.0)"
    assert ended.stdout.splitlines()[-1] == "[]"
