"""The report as lines for a person."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from lightwork.report.dataset import Noticed, SetFacts
from lightwork.report.dataset_inspection import inspect
from lightwork.report.dataset_outcome import DatasetReport
from lightwork.report.dataset_text import WIDTH, lines_of, percent
from lightwork.report.dataset_tokens import Lengths, Spread
from lightwork.report.dataset_windows import WindowFacts
from lightwork.report.dataset_writing import Written
from tests.report.test_dataset import FERRY, everything_wrong, gold
from tests.tasks.made import qa, squad, written


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    return written(tmp_path, everything_wrong(), "wrong.json")


def told(report: DatasetReport) -> str:
    """All words in one line."""
    return " ".join(" ".join(lines_of(report)).split())


def test_every_line_of_a_file_with_everything_wrong(wrong: Path) -> None:
    text = told(inspect([wrong], [], on_mismatch="drop"))
    for part in (
        "language English 100 %",
        "questions 15 about 2 distinct contexts",
        "12 with an answer, 3 impossible; 7 can be trained on",
        "answers 12 gold answers 7 at the answer_start given (ok)",
        "1 elsewhere, at one place only (shifted_unique)",
        "1 elsewhere, at several places (shifted_ambiguous)",
        "1 nowhere in the context (absent)",
        "1 with an answer_start outside the context (out_of_range)",
        "1 without an answer_start, or with one that is -1 or not a whole number (no_start)",
        "- shifted (shifted_unique)",
        "repeated 1 question asked earlier about the same context: again",
        "lengths in characters, since no --model is named",
        "characters p50 p90 max",
        "training training would stop: 5 gold answers not at the answer_start given; "
        "data.on_mismatch=repair moves 3 to the only place where the text stands, and leaves 2 "
        "unlearned",
        "1 training question with the id of an earlier one; --write OUT gives each its own",
        "noticed 1 blank gold answer (not counted): blank answer",
    ):
        assert part in text
    for example_id in ("padded", "blank question", "blank context", "flag", "odd"):
        assert f": {example_id}" in text, example_id
    assert "nothing in the way" not in text
    assert "windows of" not in text


def test_a_file_with_nothing_wrong(tmp_path: Path) -> None:
    right = written(tmp_path, squad(FERRY, qa("a", [gold("noon")])))
    text = told(inspect([right], [], on_mismatch="drop"))
    assert text.endswith("training nothing in the way of training")
    assert "1 about 1 distinct context 1 with an answer, 0 impossible" in text
    assert "answers 1 gold answer 1 at the answer_start given (ok)" in text
    assert "no question stands twice with the same context" in text
    assert "noticed" not in text


def test_held_out_questions_that_are_trained_on(tmp_path: Path) -> None:
    train = written(tmp_path, squad(FERRY, qa("a", [gold("noon")], "When?")), "train.json")
    dev = squad(FERRY, qa("x", [gold("noon")], "When?"), qa("y", [gold("noon")], "At what time?"))
    dev["data"][0]["paragraphs"].append({"context": "Other.", "qas": [qa("z", [])]})
    text = told(inspect([train], [written(tmp_path, dev, "dev.json")], on_mismatch="drop"))
    assert (
        "overlap 1 of its questions (33.3 %) and 1 of its contexts (50.0 %) are in the training "
        "files too its scores will flatter"
    ) in text
    assert "the first such questions: x, y" in text
    other = written(tmp_path, squad("Other.", qa("z", [])), "other.json")
    text = told(inspect([train], [other], on_mismatch="drop"))
    assert "overlap none of its contexts is in the training files" in text


def test_windows_and_lengths_in_tokens(report: DatasetReport) -> None:
    text = told(report)
    for part in (
        "lengths by the tokenizer of owner/name; whole is question, context and special tokens",
        "tokens p50 p90 max",
        "question 1,234 12,345 1,234,567",
        "whole 1,234 12,345 1,234,567",
        "windows of at most 384 tokens, sharing 128, with questions of at most 64",
        "1,300,000 windows (1,250,000 trained on), 1.05 for each question; 97.1 % of the "
        "questions are one window",
        "questions that are longer, and cut: 7",
        "12 answers (under 0.1 %) whole in no window, and not learned: q1, q2, q3, q4, q5 and 7 "
        "more padding",
        "padding 50.0 % of all tokens with every window padded to 384; 0 % in the batches of 32",
    ):
        assert part in text
    assert report.windows is not None
    none = replace(report, windows=replace(report.windows, trained_windows=0))
    assert "training would stop: no window holds a whole answer" in told(none)
    one = replace(
        report.windows, windows=1, trained_windows=1, cut_answers=1, cut_answers_ids=("a",)
    )
    text = told(replace(report, windows=one))
    assert "1 window (1 trained on)" in text
    assert "1 answer (under 0.1 %) whole in no window, and not learned: a padding" in text
    whole = replace(report.windows, cut_answers=0, cut_answers_ids=(), cut_answers_share=0)
    assert "0 answers (0 %) whole in no window, and not learned padding" in told(
        replace(report, windows=whole)
    )


def test_what_was_written(report: DatasetReport) -> None:
    written = Written("out.json", "v2.0", 1_000, 2_000, 3, 4, 5, 6)
    text = told(replace(report, written=written))
    assert (
        "written out.json: 1,000 questions with 2,000 answers, SQuAD 2.0 3 questions left out, "
        "with something blank 4 questions left out, with no answer that has a place 5 answers "
        "left out, without a place 6 questions written without outer blanks for training: as "
        "held-out questions they would have other scores training out.json can be trained on"
    ) in text
    assert report.windows is not None
    stopped = replace(report, written=written, windows=replace(report.windows, trained_windows=0))
    assert "training on out.json would stop: no window" in told(stopped)
    clean = told(replace(report, written=Written("out.json", "1.1", 1, 1, 0, 0, 0, 1)))
    assert "left out" not in clean
    assert "other scores" not in clean
    assert "1 question with 1 answer, SQuAD 1.1 1 question written without outer blanks" in clean


def test_what_was_just_done_is_not_advised(wrong: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    text = told(inspect([wrong], [], on_mismatch="repair", target=out))
    assert "can be trained on" in text.partition("written")[2]
    assert "would stop" not in text
    assert "--write" not in text.replace(str(out), "")
    # What writing does not mend is still told.
    text = told(inspect([wrong], [wrong], on_mismatch="repair", target=tmp_path / "two.json"))
    assert (
        "would stop: 1 held-out question with the id of an earlier one; give each its own" in text
    )


def test_no_line_is_wider_than_a_terminal(report: DatasetReport, wrong: Path) -> None:
    chinese = "望江塔建于" * 40
    misplaced = replace(report.train, misplaced=(f"q1 (absent): {chinese}", "x" * 300))
    lines = lines_of(replace(report, train=misplaced))
    lines += lines_of(inspect([wrong], [wrong], on_mismatch="drop"))
    assert max(map(cell_len, lines)) <= WIDTH
    assert chinese in "".join(line.strip() for line in lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_a_path_stays_whole_where_no_terminal_wants_it_folded(report: DatasetReport) -> None:
    (path,) = report.train.files
    assert path not in "\n".join(lines_of(report))
    lines = lines_of(report, fold=False)
    assert f"file       {path}:" in lines
    assert max(cell_len(line) for line in lines if path not in line) <= WIDTH


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    made = squad(FERRY, qa("a\x1b[2J\n", [gold("noon")], " When? "))
    bell = written(tmp_path, made, "b\x1b[2J.json")
    text = "\n".join(lines_of(inspect([bell], [], on_mismatch="drop")))
    assert "\x1b" not in text
    assert "a\\x1b[2J" in text
    assert "b\\x1b[2J.json" in "".join(line.strip() for line in text.splitlines())


def test_json_holds_everything(wrong: Path, report: DatasetReport) -> None:
    entry = json.loads(json.dumps(inspect([wrong], [wrong], on_mismatch="drop").as_json()))
    train = entry["train"]
    assert train["answers_by_class"]["absent"] == 1
    assert train["noticed"]["flag_conflicts"]["count"] == 1
    assert train["noticed"]["flag_conflicts"]["ids"] == ["flag"]
    assert train["repeated_questions"]["count"] == 1
    assert entry["lengths_characters"]["question"].keys() == {"p50", "p90", "max"}
    assert entry["overlap"]["shared_contexts"] == 1
    assert entry["mending"] == {"mended_answers": 3, "dropped_answers": 2}
    assert len(entry["stops"]) == 3
    assert (entry["windows"], entry["written"], entry["lengths_tokens"]) == (None, None, None)
    full = report.as_json()
    assert full["windows"]["padding_planned_share"] == 0
    assert full["lengths_tokens"]["whole"]["max"] == 1_234_567


NAMES = """
train.files train.shapes train.languages train.questions train.distinct_contexts
train.gold_answers train.questions_with_answer train.questions_impossible
train.questions_trainable train.answers_by_class train.misplaced train.noticed
train.repeated_questions dev overlap mending model stops
lengths_characters.question lengths_characters.context lengths_characters.answer
lengths_characters.whole lengths_tokens.question lengths_tokens.context lengths_tokens.answer
lengths_tokens.whole windows.max_length_tokens windows.stride_tokens
windows.max_question_length_tokens windows.batch_windows windows.windows
windows.windows_per_question windows.one_window_share windows.trained_windows
windows.cut_questions windows.cut_answers windows.cut_answers_ids windows.cut_answers_share
windows.padding_to_max_length_share windows.padding_planned_share written
""".split()
"""Others read them: a changed name is a broken promise."""


def test_names_of_json_stay(report: DatasetReport) -> None:
    found = []
    for name, value in report.as_json().items():
        sections = name in ("train", "lengths_characters", "lengths_tokens", "windows")
        found += [f"{name}.{inner}" for inner in value] if sections else [name]
    assert sorted(found) == sorted(NAMES)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50.0 %"),
        (1e-6, "under 0.1 %"),
        (0.99999, "over 99.9 %"),
        (0.0345, "3.5 %"),
    ],
)
def test_shares(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.fixture
def report() -> DatasetReport:
    """Numbers as large as they get."""
    spread = Spread(1_234, 12_345, 1_234_567)
    lengths = Lengths(spread, spread, spread, spread)
    facts = SetFacts(
        files=("a/" + "long/" * 30 + "name.json",),
        shapes=("SQuAD",),
        languages={},
        questions=1_234_567,
        distinct_contexts=234_567,
        gold_answers=1_234_567,
        questions_with_answer=1_234_567,
        questions_impossible=0,
        questions_trainable=1_234_567,
        answers_by_class={"ok": 1_234_567},
        misplaced=(),
        noticed={},
        repeated_questions=Noticed(0, (), ""),
    )
    ids = ("q1", "q2", "q3", "q4", "q5")
    windows = WindowFacts(
        384, 128, 64, 32, 1_300_000, 1.05, 0.971, 1_250_000, 7, 12, ids, 1e-5, 0.5, 0
    )
    return DatasetReport(
        train=facts,
        lengths_characters=lengths,
        model="owner/name",
        lengths_tokens=lengths,
        windows=windows,
    )
