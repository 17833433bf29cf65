"""What is counted in files of questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthetic import Options, write
from lightwork.report.dataset import Mending, overlap, set_facts
from lightwork.report.dataset_inspection import inspect
from lightwork.tasks.extractive.reading import read_examples
from tests.tasks.made import example, examples, qa, squad, written

FERRY = "The ferry leaves Tarn Harbour at noon. The harbour was built by Odell Wick."


def gold(text: str, start: Any = None) -> dict[str, Any]:
    return {"text": text, "answer_start": FERRY.index(text) if start is None else start}


def everything_wrong() -> dict[str, Any]:
    """Each kind of fault at least once, beside two questions without one."""
    document = squad(
        FERRY,
        qa("right", [gold("Odell Wick")], "Who built it?", is_impossible=False),
        qa("impossible", [], "Who left?", is_impossible=True),
        qa("shifted", [gold("noon", 34)], "When?"),
        qa("twice", [gold("arbour", 18)], "Where?"),
        qa("absent", [gold("midnight", 3)], "When not?"),
        qa("outside", [gold("ferry", 900)], "What?"),
        qa("unplaced", [gold("Tarn", -1)], "Which?"),
        qa("odd", [gold("Tarn", str(FERRY.index("Tarn")))], "Which harbour?"),
        qa("padded", [gold("noon")], " At what time? "),
        qa("blank question", [gold("noon")], " "),
        qa("blank answer", [gold(" ", 3)], "What blank?"),
        qa("flag", [gold("noon")], "What flag?", is_impossible=True),
        qa("again", [gold("Odell Wick")], "Who built it?"),
        qa("right", [gold("noon")], "What again?"),
    )
    blank = {"context": " ", "qas": [qa("blank context", [])]}
    document["data"][0]["paragraphs"].append(blank)
    return document


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    return written(tmp_path, everything_wrong(), "wrong.json")


def test_every_fault_is_counted(wrong: Path) -> None:
    facts = set_facts([wrong], read_examples([wrong], on_mismatch="drop", on_repeated="number"))
    assert facts.files == (str(wrong),)
    assert len(facts.shapes) == 1
    assert facts.languages == {"English": 1.0}
    assert (facts.questions, facts.distinct_contexts) == (15, 2)
    # The blank answer is none, and leaves its question without any.
    assert facts.gold_answers == 12
    assert (facts.questions_with_answer, facts.questions_impossible) == (12, 3)
    # Not: five without a place, a blank question, a blank answer, a blank context.
    assert facts.questions_trainable == 7
    assert facts.answers_by_class == {
        "ok": 7, "shifted_unique": 1, "shifted_ambiguous": 1, "absent": 1, "out_of_range": 1,
        "no_start": 1,
    }  # fmt: skip
    assert facts.misplaced_answers == 5
    assert ["shifted" in facts.misplaced[0], "twice" in facts.misplaced[1]] == [True, True]
    counted = {name: (noticed.count, noticed.ids) for name, noticed in facts.noticed.items()}
    for name, ids in {
        "questions_with_outer_blanks": ("padded",),
        "blank_questions": ("blank question",),
        "blank_contexts": ("blank context",),
        "blank_answers": ("blank answer",),
        "flag_conflicts": ("flag",),
        "odd_starts": ("odd",),
    }.items():
        assert counted[name] == (1, ids)
    assert facts.repeated_questions.count == 1
    assert facts.repeated_questions.ids == ("again",)
    assert facts.noticed["flag_conflicts"].meaning.startswith("questions whose is_impossible")


def test_what_stops_training(wrong: Path) -> None:
    report = inspect([wrong], [], on_mismatch="drop")
    mended, repeated = report.stops
    assert mended.startswith("5 gold answers not at the answer_start given")
    assert report.mending == Mending(mended_answers=3, dropped_answers=2)
    assert "repair moves 3 to the only place where the text stands, and leaves 2" in mended
    assert repeated.startswith("1 training question with the id of an earlier one")
    assert report.stops_when_written == []
    # It is told alike, whichever way the answers are treated here.
    assert inspect([wrong], [], on_mismatch="repair").stops == report.stops


def test_nothing_stops_training_on_what_is_right(tmp_path: Path) -> None:
    right = written(tmp_path, squad(FERRY, qa("a", [gold("noon")])))
    report = inspect([right], [right], on_mismatch="drop")
    assert (report.stops, report.mending) == ([], None)


def test_a_set_without_anything_to_learn_stops_training(tmp_path: Path) -> None:
    blank = written(tmp_path, squad(FERRY, qa("a", [gold("noon")], " ")))
    assert inspect([blank], [], on_mismatch="drop").stops == ["no question can be trained on"]


def test_repeated_ids_of_held_out_questions_stop_training(tmp_path: Path) -> None:
    right = written(tmp_path, squad(FERRY, qa("a", [gold("noon")])))
    twice = squad(FERRY, qa("a", [gold("noon")]), qa("a", [gold("noon")], "Why?"))
    (reason,) = inspect([right], [written(tmp_path, twice, "dev.json")], on_mismatch="drop").stops
    assert "1 held-out question with the id of an earlier one" in reason
    assert "--write" not in reason  # which leaves out what scoring counts


def test_data_sets_of_the_hub_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, squad(FERRY, qa("a", [gold("noon")])))
    asked = []

    def fetch(name: str, cache: Path) -> Path:
        asked.append(name)
        assert cache.is_absolute()
        return file

    monkeypatch.setattr("lightwork.tasks.extractive.formats.hub.fetch", fetch)
    report = inspect([Path("hub:owner/name#validation")], [file], on_mismatch="drop")
    assert report.train.files == ("hub:owner/name#validation",)
    assert report.train.questions == 1
    assert asked == ["hub:owner/name#validation"]


def test_overlap_is_by_text_without_outer_blanks() -> None:
    train = [example("t1", "Who?", "one two"), example("t2", "Where?", "three")]
    dev = examples(
        example("d1", " Who? ", "\none two"),
        example("d2", "When?", "one two"),
        example("d3", "Who?", "three"),
        example("d4", "Who?", "four"),
        example("d5", "who?", "One two"),
    )
    found = overlap(train, dev)
    assert (found.questions, found.shared_questions) == (5, 1)
    assert (found.contexts, found.shared_contexts) == (4, 2)
    assert found.ids == ("d1", "d2", "d3")


def test_blank_contexts_do_not_overlap() -> None:
    blank = example("a", "Who?", " ")
    assert overlap([blank], examples(blank)).shared_contexts == 0


def test_made_faults_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    put_in = write(path, Options(questions=400, faults=0.2, chinese=0.4, impossible=0.3))
    facts = set_facts([path], read_examples([path], on_mismatch="drop", on_repeated="number"))
    assert min(put_in.values()) > 0
    wrong = put_in["shifted_answer"] + put_in["absent_answer"] + put_in["no_start"]
    assert facts.misplaced_answers == wrong
    for kind, name in {
        "blank_question": "blank_questions",
        "padded_question": "questions_with_outer_blanks",
        "blank_answer": "blank_answers",
        "blank_context": "blank_contexts",
        "conflicting_flag": "flag_conflicts",
    }.items():
        assert facts.noticed[name].count == put_in[kind], name
    assert facts.repeated_questions.count == put_in["repeated_question"]
    assert facts.noticed["renamed_ids"].count == put_in["repeated_id"]
    assert 0.25 < facts.languages["Chinese"] < 0.55


def test_the_same_options_make_the_same_file(tmp_path: Path) -> None:
    one, two, other = (tmp_path / name for name in ("1.json", "2.json", "3.json"))
    write(one, Options(questions=50, faults=0.2))
    write(two, Options(questions=50, faults=0.2))
    write(other, Options(questions=50, faults=0.2, seed=2))
    assert one.read_bytes() == two.read_bytes() != other.read_bytes()
