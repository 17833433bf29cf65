"""What is written reads back as the same questions, with nothing odd left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightwork.errors import DataError, RunError
from lightwork.report.dataset_writing import write_squad
from lightwork.tasks.extractive.examples import Answer, Example, Examples
from lightwork.tasks.extractive.reading import read_examples
from tests.report.test_dataset import FERRY, everything_wrong, gold
from tests.tasks.made import examples, qa, squad, written

PLAIN = {"examples", "contexts", "answers", "impossible"}


def odd(read: Examples) -> dict[str, int]:
    return {name: count for name, count in read.summary.items() if count and name not in PLAIN}


def test_everything_wrong_becomes_right(tmp_path: Path) -> None:
    wrong = written(tmp_path, everything_wrong())
    read = read_examples([wrong], on_mismatch="repair", on_repeated="number")
    target = tmp_path / "clean.json"
    told = write_squad(target, read)
    back = read_examples([target])
    assert odd(back) == {}
    assert told.version == "v2.0"
    assert (told.questions, told.answers) == (len(back), back.summary["answers"]) == (10, 9)
    assert told.left_out_unusable_questions == 3
    assert told.left_out_unplaced_questions == 2
    assert told.stripped_questions == 1
    kept = {item.id: item for item in back}
    assert not {"absent", "twice", "blank question", "blank answer", "blank context"} & set(kept)
    assert len(kept) == 10
    assert kept["shifted"].answers == (Answer("noon", FERRY.index("noon")),)
    assert kept["unplaced"].answers == (Answer("Tarn", FERRY.index("Tarn")),)
    assert kept["padded"].question == "At what time?"
    assert [item.id for item in back if item.impossible] == ["impossible"]
    flags = [
        question["is_impossible"]
        for article in json.loads(target.read_bytes())["data"]
        for question in article["paragraphs"][0]["qas"]
    ]
    assert flags.count(True) == 1
    assert len(flags) == 10


def test_answers_without_a_place_are_left_out_one_by_one(tmp_path: Path) -> None:
    two = qa("a", [gold("midnight", 3), gold("noon")])
    read = read_examples([written(tmp_path, squad(FERRY, two))], on_mismatch="repair")
    told = write_squad(tmp_path / "out.json", read)
    assert (told.left_out_unplaced_answers, told.left_out_unplaced_questions) == (1, 0)
    (item,) = read_examples([tmp_path / "out.json"])
    assert item.answers == (Answer("noon", FERRY.index("noon")),)


def test_the_version_says_whether_questions_may_be_impossible(tmp_path: Path) -> None:
    answered = Example("a", "Who?", "one", (Answer("one", 0),), False)
    target = tmp_path / "out.json"
    assert write_squad(target, examples(answered)).version == "1.1"
    assert json.loads(target.read_bytes())["version"] == "1.1"
    assert "is_impossible" not in target.read_text()
    impossible = Example("b", "Who?", "one", (), True)
    assert write_squad(target, examples(answered, impossible)).version == "v2.0"
    assert json.loads(target.read_bytes())["version"] == "v2.0"


def test_questions_about_one_context_stand_together(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    pairs = [("a", "one"), ("b", "two"), ("c", "one")]
    write_squad(target, examples(*(Example(i, "Who?", c, (), True) for i, c in pairs)))
    articles = json.loads(target.read_bytes())["data"]
    assert [
        (article["paragraphs"][0]["context"], [q["id"] for q in article["paragraphs"][0]["qas"]])
        for article in articles
    ] == [("one", ["a", "c"]), ("two", ["b"])]
    assert all(len(article["paragraphs"]) == 1 for article in articles)


def test_nothing_to_write_is_an_error_and_no_file(tmp_path: Path) -> None:
    blank = Example("a", " ", "one", (), True, "blank_questions")
    unplaced = Example("b", "Who?", "one", (Answer("two", None),), False)
    with pytest.raises(
        DataError, match="none of 2 questions can be written: 1 with something blank, 1 with no"
    ):
        write_squad(tmp_path / "out.json", examples(blank, unplaced))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.json"
    target.write_text("before")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lightwork.disk.sync_tree", full)
    with pytest.raises(RunError, match="No space left on device"):
        write_squad(target, examples(Example("a", "Who?", "one", (), True)))
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert target.read_text() == "before"


# No half surrogate pairs, which are no text; everything else a file can hold.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VISIBLE = TEXT.filter(lambda text: text.strip())


@st.composite
def sets(draw: st.DrawFn) -> Examples:
    """Any questions that nothing is odd about, in the order of their contexts."""
    items: list[Example] = []
    for context in draw(st.lists(VISIBLE, min_size=1, max_size=4, unique=True)):
        for question in draw(st.lists(VISIBLE, min_size=1, max_size=3)):
            spans = draw(st.lists(st.tuples(st.integers(0, 11), st.integers(1, 12)), max_size=3))
            texts = [Answer(context[first : first + size], first) for first, size in spans]
            answers = tuple(answer for answer in texts if answer.text.strip())
            items.append(
                Example(f"id {len(items)}", question.strip(), context, answers, not answers)
            )
    return examples(*items)


@settings(deadline=None, max_examples=150)
@given(sets())
def test_any_set_reads_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, read: Any) -> None:
    target = tmp_path_factory.mktemp("written") / "out.json"
    told = write_squad(target, read)
    back = read_examples([target])
    assert back.items == read.items
    assert odd(back) == {}
    assert told.questions == len(read)
