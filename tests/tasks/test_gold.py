"""Gold answers that are not where they should be: told by class, and dropped or moved on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import NOTES, Answer, Examples, noted
from lightwork.tasks.extractive.gold import CLASSES, OnMismatch, only_place
from lightwork.tasks.extractive.reading import read_examples
from tests.tasks.made import qa, squad, written

CONTEXT = "Ada Pell runs the shop in Kell."


def problem(path: Path) -> str:
    """The message that reading ``path`` ends with."""
    with pytest.raises(DataError) as caught:
        read_examples([path])
    return str(caught.value)


MISPLACED = "Ravel Lane has a pump. Ravel Lane also has a well. The keeper is Dunmore."


@pytest.mark.parametrize(
    ("kind", "text", "start", "told"),
    [
        ("shifted_unique", "Dunmore", 64, "at 64 stands ' Dunmor'"),
        ("shifted_unique", "Dunmore", 67, "the text is at 65"),
        ("shifted_unique", "a well", 0, "the text is at 43"),
        ("shifted_ambiguous", "Lane", 0, "not 'Lane'"),
        ("absent", "Pettigrew", 5, "at 5 stands"),
        ("absent", "dunmore", 65, "another letter case"),
        ("out_of_range", "Dunmore", 113, "at 113 stands ''"),
        ("out_of_range", "Dunmore", -9, "answer_start is -9"),
        ("no_start", "Dunmore", -1, "answer_start is -1"),
        ("no_start", "Dunmore", None, "answer_start is null"),
        ("no_start", "Dunmore", 65.5, "answer_start is 65.5"),
        ("no_start", "Dunmore", float("nan"), "answer_start is NaN"),
        ("no_start", "Dunmore", "9" * 5000, 'answer_start is "99999'),
        ("no_start", "Dunmore", {"at": 65}, 'answer_start is {"at": 65}'),
        ("out_of_range", "Dunmore", 1e300, "at 1000"),
        ("no_start", "Dunmore", True, "answer_start is true"),
        ("no_start", "Dunmore", "x", 'answer_start is "x"'),
        ("no_start", "Dunmore", "65.5", 'answer_start is "65.5"'),
        ("no_start", "Dunmore", "65.", 'answer_start is "65."'),
    ],
)
def test_a_misplaced_answer_stops_with_its_class(
    tmp_path: Path, kind: str, text: str, start: Any, told: str
) -> None:
    answers = [{"text": text, "answer_start": start}]
    good = [{"text": "Dunmore", "answer_start": 65}]
    message = problem(written(tmp_path, squad(MISPLACED, qa("bad", answers), qa("ok", good))))
    assert f"1 of 2 gold answers are not found at their answer_start ({kind} 1)" in message
    assert f"bad ({kind}): " in message
    assert told in message


def test_every_answer_that_stops_is_told_at_once(tmp_path: Path) -> None:
    starts: list[Any] = [-1, None, "x", 65.5, 65.0]
    answers = [[{"text": "Dunmore", "answer_start": start}] for start in starts]
    rows = [qa(f"bad{i}", answer) for i, answer in enumerate(answers)]
    rows[0]["answers"][0].pop("answer_start")
    rows.insert(1, qa("number", [{"text": 65, "answer_start": 65}]))
    path = written(tmp_path, squad(MISPLACED, *rows))
    lines = problem(path).splitlines()
    where = "at data[0].paragraphs[0].qas[1].answers[0].text (id number)"
    assert lines[0] == f"{path}: {where}: expected a text, found the number 65"
    assert lines[1].startswith(f"{path}: 4 of 5 gold answers are not found at their answer_start")
    told = ["missing", "null", '"x"', "65.5"]
    for number, given in enumerate(told):
        line = f"  bad{number} (no_start): answer_start is {given}, for 'Dunmore'"
        assert lines[2 + number] == f"{line}; the text is at 65"
    assert "data.on_mismatch=repair" in lines[-1]
    assert "data.on_mismatch=drop" in lines[-1]


def test_many_answers_of_a_wrong_shape_are_told_together(tmp_path: Path) -> None:
    rows = [qa(f"q{i}", [f"answer {i}"]) for i in range(7)]
    path = written(tmp_path, squad(MISPLACED, *rows))
    lines = problem(path).splitlines()
    assert lines[0] == f"{path}: 7 questions have no answers that can be read:"
    assert lines[1] == (
        "  at data[0].paragraphs[0].qas[0].answers[0] (id q0): expected an object with text and "
        "answer_start, found the text 'answer 0'"
    )
    assert lines[-1] == "  and 2 more"
    assert len(lines) == 7
    with pytest.raises(DataError, match="7 questions have no answers that can be read"):
        read_examples([path], on_mismatch="drop")


def test_many_misplaced_answers_show_five_and_the_total(tmp_path: Path) -> None:
    bad = [qa(f"bad{i}", [{"text": "Dunmore", "answer_start": 1}]) for i in range(12)]
    message = problem(written(tmp_path, squad(MISPLACED, *bad)))
    assert "12 of 12 gold answers" in message
    assert "bad4" in message
    assert "bad5" not in message
    assert "and 7 more" in message


@pytest.mark.parametrize(
    ("start", "hint"), [(22, "UTF-8 byte offset"), (8, "UTF-16 offset"), (6, "")]
)
def test_offsets_of_another_unit_are_recognised(tmp_path: Path, start: int, hint: str) -> None:
    context = "劇団、\U0001f3adの印、林。"
    assert context.index("林") == 7
    message = problem(
        written(tmp_path, squad(context, qa("q", [{"text": "林", "answer_start": start}])))
    )
    assert (f"{start} is right as a {hint}" in message) == bool(hint)


@pytest.mark.parametrize(
    ("context", "text"), [("Zoe\u0308 Marr", "Zo\u00eb"), ("３５０人", "350人")]
)
def test_another_unicode_form_is_told_and_not_accepted(
    tmp_path: Path, context: str, text: str
) -> None:
    answers = [{"text": text, "answer_start": 0}]
    message = problem(written(tmp_path, squad(context, qa("q", answers))))
    assert "absent 1" in message
    assert "another Unicode form" in message


@pytest.mark.parametrize("start", [4, 4.0, "4", "4.0", " 4.00 "])
def test_a_whole_number_may_be_written_in_other_ways(tmp_path: Path, start: Any) -> None:
    document = squad(CONTEXT, qa("q", [{"text": "Pell", "answer_start": start}]))
    read = read_examples([written(tmp_path, document)])
    assert read.items[0].answers == (Answer("Pell", 4),)
    assert read.summary.get("odd_starts", 0) == (not isinstance(start, int))


STARTS: dict[str, tuple[str, Any]] = {
    "good": ("Dunmore", 65),
    "shifted": ("Dunmore", 64),
    "twice": ("Ravel Lane", 3),
    "absent": ("Pettigrew", 5),
    "case": ("dunmore", 65),
    "far": ("a well", 400),
    "far-twice": ("Lane", 400),
    "minus": ("a well", -1),
    "null-twice": ("Lane", None),
}
KINDS = {
    "ok": 1,
    "shifted_unique": 1,
    "shifted_ambiguous": 1,
    "absent": 2,
    "out_of_range": 2,
    "no_start": 2,
}


def read_starts(tmp_path: Path, on_mismatch: OnMismatch) -> Examples:
    """The questions of ``STARTS``, with one gold answer each."""
    rows = [
        qa(name, [{"text": text, "answer_start": start}]) for name, (text, start) in STARTS.items()
    ]
    path = written(tmp_path, squad(MISPLACED, *rows, version="1.1"))
    return read_examples([path], on_mismatch=on_mismatch)


def placed(read: Examples) -> dict[str, int | None]:
    """The start of each question's only answer, whose text is as it was given."""
    found: dict[str, int | None] = {}
    for item in read:
        (answer,) = item.answers
        assert answer.text == STARTS[item.id][0]
        assert item.learned == (None if answer.start is None else answer)
        assert item.unusable == ("misplaced_answers" if answer.start is None else "")
        assert not item.impossible
        found[item.id] = answer.start
    return found


def test_dropped_answers_are_scored_and_not_learned(tmp_path: Path) -> None:
    read = read_starts(tmp_path, "drop")
    assert placed(read) == {**dict.fromkeys(STARTS), "good": 65}
    assert read.summary["misplaced_answers"] == read.summary["unplaced_questions"] == 8
    assert "repaired_answers" not in read.summary
    assert read.summary["impossible"] == 0
    assert read.classes == KINDS
    assert not read.no_answer


def test_only_an_answer_with_one_place_is_repaired(tmp_path: Path) -> None:
    read = read_starts(tmp_path, "repair")
    moved = {"shifted": 65, "far": 43, "minus": 43}
    assert placed(read) == {**dict.fromkeys(STARTS), "good": 65, **moved}
    assert read.listed["repaired_answers"] == list(moved)
    assert read.summary["repaired_answers"] == 3
    assert read.summary["misplaced_answers"] == read.summary["unplaced_questions"] == 5
    assert read.listed["misplaced_answers"] == [
        "twice",
        "absent",
        "case",
        "far-twice",
        "null-twice",
    ]
    assert read.classes == KINDS


def test_the_first_misplaced_answers_are_told(tmp_path: Path) -> None:
    read = read_starts(tmp_path, "drop")
    assert len(read.misplaced) == 5
    assert read.misplaced[0] == (
        "shifted (shifted_unique): at 64 stands ' Dunmor', not 'Dunmore'; the text is at 65"
    )
    assert read.misplaced[3].endswith("it is there in another letter case")


def test_the_first_misplaced_answers_of_all_files_are_told(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, squad(MISPLACED, *rows), f"{name}.json")
        for name, rows in {
            "few": [qa(f"few{i}", [{"text": "Dunmore", "answer_start": 1}]) for i in range(3)],
            "more": [qa(f"more{i}", [{"text": "Dunmore", "answer_start": 1}]) for i in range(4)],
        }.items()
    ]
    read = read_examples(paths, on_mismatch="repair")
    told = [line.split()[0] for line in read.misplaced]
    assert told == ["few0", "few1", "few2", "more0", "more1"]
    assert read.classes == {"shifted_unique": 7}


@pytest.mark.parametrize("on_mismatch", ["drop", "repair"])
def test_one_answer_with_a_place_is_enough_to_learn_from(
    tmp_path: Path, on_mismatch: OnMismatch
) -> None:
    answers = [
        {"text": "Pettigrew", "answer_start": 0},
        {"text": " ", "answer_start": 0},
        {"text": "Dunmore", "answer_start": 65},
    ]
    read = read_examples(
        [written(tmp_path, squad(MISPLACED, qa("q", answers)))], on_mismatch=on_mismatch
    )
    (item,) = read
    assert item.answers == (Answer("Pettigrew", None), Answer("Dunmore", 65))
    assert item.learned == Answer("Dunmore", 65)
    assert item.unusable == ""
    assert read.summary["misplaced_answers"] == read.summary["blank_answers"] == 1
    assert "unplaced_questions" not in read.summary


def test_places_that_overlap_are_several(tmp_path: Path) -> None:
    assert only_place("aa", "baaab") is None
    assert only_place("aa", "baab") == 1
    assert only_place("哈哈", "他哈哈哈笑") is None
    answers = [{"text": "哈哈", "answer_start": 0}]
    path = written(tmp_path, squad("他哈哈哈笑", qa("q", answers)))
    read = read_examples([path], on_mismatch="repair")
    assert read.items[0].answers == (Answer("哈哈", None),)
    assert read.classes == {"shifted_ambiguous": 1}
    assert "the text is at" not in read.misplaced[0]


def test_a_count_reads_right_before_its_note() -> None:
    assert noted(1, NOTES["contexts"]) == "1 different context"
    assert noted(0, "gold answers") == "0 gold answers"
    assert noted(1234, "blank questions (x)") == "1,234 blank questions (x)"
    assert noted(1, "answers beginning in words") == "1 answer beginning in words"
    for phrase in NOTES.values():
        one = noted(1, phrase)
        assert len(one) == len(f"1 {phrase}") - 1, phrase
        # Neither a verb nor a pronoun that suits many only.
        assert not {"their", "them", "they", "are", "begin", "stand"} & set(one.split()), phrase


def test_what_is_counted_is_explained(tmp_path: Path) -> None:
    read = read_starts(tmp_path, "repair")
    assert read.summary.keys() <= NOTES.keys()
    assert read.classes.keys() <= CLASSES.keys()
    ids = {"data": [{"id": "q", "question": " Who? ", "context": "A", "answers": []}] * 2}
    numbered = read_examples([written(tmp_path, ids)], on_repeated="number")
    assert numbered.summary.keys() <= NOTES.keys()
    qas = [{"query_id": "r", "query_text": "Who?", "answers": ["a", "c"]}]
    raw = read_examples([written(tmp_path, [{"context_text": "aab", "qas": qas}])])
    assert raw.summary.keys() <= NOTES.keys()
    assert raw.classes.keys() <= CLASSES.keys()
