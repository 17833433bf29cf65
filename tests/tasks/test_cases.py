"""The situations of the shared case folders that belong to reading, windows and scoring."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from lightwork.errors import DataError, SettingsError
from lightwork.tasks.extractive.examples import Answer, Examples
from lightwork.tasks.extractive.gold import classify
from lightwork.tasks.extractive.loss import masked
from lightwork.tasks.extractive.merge import merge_candidates
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.tasks.extractive.reading import read_examples, texts
from lightwork.tasks.extractive.scoring.score import Gold, score_answers
from lightwork.tasks.extractive.windows import WindowOptions, build_windows, check_options
from tests.tasks.made import Columns, byte_tokenizer, example, examples, label_text, word_tokenizer

pytestmark = pytest.mark.shared


@pytest.fixture
def case(shared: Path) -> Any:
    """``case(12)`` is the folder whose name begins with 12."""
    return lambda number: next((shared / "cases").glob(f"{number:02}-*"))


def loaded(path: Path) -> Any:
    return json.loads(path.read_bytes())


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_examples([path])
    return str(caught.value)


def spans(read: Examples) -> dict[str, list[list[Any]]]:
    return {
        item.id: [
            [gold.start, gold.start + len(gold.text), gold.text]
            for gold in item.answers
            if gold.start is not None
        ]
        for item in read
    }


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 8, 10, 22])
def test_spans_are_read_and_learned_as_they_stand(case: Any, wordpiece: Any, number: int) -> None:
    read = read_examples([case(number) / "input.json"])
    expected = loaded(case(number) / "expect.json")["spans_codepoints_half_open"]
    assert spans(read) == expected
    bytewise = byte_tokenizer(list(texts(read)))
    for tokenizer in (wordpiece, bytewise):
        windows = build_windows(read, tokenizer, WindowOptions(400, 32, 200), training=True)
        rows = Columns(windows)
        assert "cut_answers" not in windows.summary
        for index, number_of in enumerate(rows.column("example")):
            gold = read.items[number_of].answers[0].text
            told = label_text(windows, index)
            assert told is not None
            # Byte-level words may be wider than a Chinese answer; the slice still covers it.
            assert gold in told
            if tokenizer is wordpiece:
                assert told == gold


def test_no_character_is_translated(case: Any, packaged: str) -> None:
    tokenizer = load_tokenizer(packaged)
    for number in (7, 8, 10, 22):
        read = read_examples([case(number) / "input.json"])
        windows = build_windows(read, tokenizer, WindowOptions(300, 32, 64), training=True)
        told = [label_text(windows, index) for index in range(windows.summary["windows"])]
        assert told == [item.answers[0].text for item in read]


@pytest.mark.parametrize("number", [1, 3])
def test_sizes_without_room_are_refused_before_reading(
    case: Any, wordpiece: Any, number: int
) -> None:
    sizes = loaded(case(number) / "params.json")
    options = WindowOptions(sizes["max_seq_len"], sizes["doc_stride"], sizes["max_question_len"])
    with pytest.raises(SettingsError, match=r"data\.max_length .* data\.max_question_length"):
        check_options(wordpiece, options)


def test_a_question_padded_with_blanks_fits(case: Any, wordpiece: Any) -> None:
    sizes = loaded(case(2) / "params.json")
    read = read_examples([case(2) / "input.json"])
    options = WindowOptions(sizes["max_seq_len"], sizes["doc_stride"], 16)
    windows = build_windows(read, wordpiece, options, training=True)
    assert {label_text(windows, i) for i in range(windows.summary["windows"])} == {"Ines Falk"}
    assert read.summary["questions_with_outer_blanks"] == 2


def test_an_answer_on_a_window_border(case: Any) -> None:
    read = read_examples([case(4) / "input.json"])
    tokenizer = word_tokenizer(texts(read))
    # Room for six words beside a question of two; the longer one is cut to the same two.
    windows = build_windows(read, tokenizer, WindowOptions(11, 3, 2), training=True)
    assert [label_text(windows, i) for i in range(windows.summary["windows"])] == ["w4 w5 w6 w7"]
    rows = Columns(windows)
    assert rows.column("start")[0] - rows.column("context_first")[0] == 1
    assert windows.listed["cut_answers"] == ["t04-q2"]


def test_units_of_offsets(case: Any) -> None:
    assert spans(read_examples([case(6) / "good.json"])) == {"t06-good": [[27, 28, "林"]]}
    for name, unit in (("bytes", "UTF-8 byte"), ("utf16", "UTF-16")):
        message = refused(case(6) / f"{name}.json")
        assert f"t06-{name}" in message
        assert unit in message


@pytest.mark.parametrize(
    ("number", "name", "example_id"),
    [(7, "nfc_answer", "t07-q5"), (8, "halfwidth_answer", "t08-q4")],
)
def test_another_unicode_form_is_reported(
    case: Any, number: int, name: str, example_id: str
) -> None:
    message = refused(case(number) / f"{name}.json")
    assert example_id in message
    assert "another Unicode form" in message


def test_classes_of_misplaced_answers(case: Any) -> None:
    paragraph = loaded(case(12) / "input.json")["data"][0]["paragraphs"][0]
    expected = loaded(case(12) / "expect.json")["class"]
    for qa in paragraph["qas"]:
        answer = qa["answers"][0]
        kind = classify(answer["text"], answer["answer_start"], paragraph["context"])
        assert (kind or "ok") == expected[qa["id"]]
    message = refused(case(12) / "input.json")
    assert "8 of 9 gold answers" in message
    assert "absent 2, out_of_range 1, shifted_ambiguous 1, shifted_unique 4" in message


def test_starts_that_are_missing_or_odd(case: Any, tmp_path: Path) -> None:
    message = refused(case(13) / "input.json")
    assert "(id t13-textnum): expected a text, found the number 1931" in message
    assert "3 of 5 gold answers" in message
    for told in ("t13-minus1 (no_start): answer_start is -1", "t13-absent", "t13-null"):
        assert told in message
    document = loaded(case(13) / "input.json")
    document["data"][0]["paragraphs"][0]["qas"].pop()
    path = tmp_path / "input.json"
    path.write_text(json.dumps(document))
    repaired = read_examples([path], on_mismatch="repair")
    assert all(item.learned == Answer("1931", 20) for item in repaired)
    assert repaired.summary["repaired_answers"] == 3
    assert repaired.summary["odd_starts"] == 2


def test_only_what_is_unambiguous_is_repaired(case: Any) -> None:
    read = read_examples([case(12) / "input.json"], on_mismatch="repair")
    right = loaded(case(12) / "expect.json")["unique_start"]
    found = {item.id: item.learned.start for item in read if item.learned}
    assert found == right
    lost = [item for item in read if item.id not in right]
    assert [item.id for item in lost] == read.listed["unplaced_questions"]
    assert all(item.unusable and not item.impossible and item.answers for item in lost)


def test_blank_fields(case: Any, wordpiece: Any) -> None:
    read = read_examples([case(15) / "input.json"])
    assert [item.id for item in read if not item.unusable] == ["t15-ok"]
    options = WindowOptions(64, 8, 16)
    trained = Columns(build_windows(read, wordpiece, options, training=True))
    assert trained.column("example").tolist() == [6]
    rows = Columns(build_windows(read, wordpiece, options, training=False))
    merged = merge_candidates([], rows, n_best=3)
    assert list(merged) == [item.id for item in read]
    golds = {item.id: Gold(tuple(gold.text for gold in item.answers)) for item in read}
    for example_id in ("t15-emptyctx", "t15-blankctx"):
        scores = score_answers(
            {example_id: merged[example_id][0]["text"]}, {example_id: golds[example_id]}
        )
        assert scores["exact_match"] == scores["f1"] == 100.0


def test_flags_that_contradict_the_answers(case: Any) -> None:
    read = read_examples([case(16) / "input.json"])
    possible = [item.id for item in read if not item.impossible]
    assert possible == ["t16-imp-with-answer", "t16-noflag-answer"]
    assert read.listed["flag_conflicts"] == [
        "t16-imp-with-answer",
        "t16-notimp-empty",
        "t16-string-flag",
    ]


def test_encodings(case: Any) -> None:
    for name in ("plain_utf8", "utf8_bom"):
        read = read_examples([case(17) / f"{name}.json"])
        assert spans(read) == {"t17-q1": [[9, 11, "周宁"]]}
    for name, byte in (("gb18030", 80), ("utf16", 0), ("bad_bytes", 103)):
        message = refused(case(17) / f"{name}.json")
        assert f"not valid UTF-8 at byte {byte}" in message
        assert f"{name}.json" in message


def test_shapes(case: Any) -> None:
    for name in ("ok_squad.json", "flat_rows.jsonl", "top_is_list.json"):
        assert spans(read_examples([case(18) / name])) == {"t18-q1": [[3, 8, "1957年"]]}
    for name, told in (
        ("rows_unequal_lists", "data[0].answers (id t18-q1): expected lists of equal length"),
        ("no_data_key", '"data"'),
        ("data_empty", "0 questions"),
        ("qas_missing", "data[0].paragraphs[0]: expected an object with qas"),
        ("answers_is_string", "data[0].paragraphs[0].qas[0].answers"),
        ("truncated", "line 1, column"),
    ):
        message = refused(case(18) / f"{name}.json")
        assert told in message
        assert "\n" not in message
    raw = read_examples([case(18) / "cmrc_raw.json"])
    first, second = raw
    assert (first.id, first.learned) == ("T18_Q1", Answer("1957年", 3))
    assert first.answers[2].start == 2
    assert (second.id, second.answers) == ("T18_Q2", (Answer("30米", None),))
    assert second.unusable
    assert not second.impossible
    assert raw.listed["unlocated_answers"] == ["T18_Q2"]


def test_data_of_another_task_is_refused(case: Any) -> None:
    message = refused(case(23) / "input.json")
    assert "this is a multiple-choice question" in message
    assert "\n" not in message
    assert refused(case(31) / "input.json")


SENTENCE = "red kite . red fox . red fox hen cow pig owl . fox"
TOKENS_BY_F1 = {1: (0, 1), 0.5: (3, 4), 0.25: (6, 11), 0: (13, 13)}
"""Tokens of the sentence whose F1 against "red kite" is the key."""


def test_answers_of_any_sharding_are_scored_once(case: Any) -> None:
    facts, expected = loaded(case(30) / "input.json"), loaded(case(30) / "expect.json")
    ids = facts["ids"]
    items = examples(*(example(name, "Which?", SENTENCE, "red kite") for name in ids))
    tokenizer = word_tokenizer([SENTENCE])
    rows = Columns(build_windows(items, tokenizer, WindowOptions(40, 4, 4), training=False))
    golds = {item.id: Gold(("red kite",)) for item in items}
    for sharding in facts["shardings"].values():
        candidates = []
        for shard in sharding["shards"]:
            for number in map(ids.index, shard):
                candidates.append([number, number, *TOKENS_BY_F1[facts["f1"][number]], 2.0, 2.0])
                candidates.append([number, number, 5, 5, 1.0, 2.0])
        random.Random(7).shuffle(candidates)
        merged = merge_candidates(candidates, rows, n_best=3)
        assert list(merged) == ids
        assert [len(answers) for answers in merged.values()] == [2] * 10
        scores = score_answers({name: best[0]["text"] for name, best in merged.items()}, golds)
        assert scores["total"] == expected["total"]
        assert scores["exact_match"] == pytest.approx(expected["em"])
        assert scores["f1"] == pytest.approx(expected["f1"])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_masks_fit_half_precision(case: Any, dtype: str) -> None:
    facts, expected = loaded(case(40) / "input.json"), loaded(case(40) / "expect.json")
    scores = torch.tensor([row["scores"] for row in facts["rows"]], dtype=getattr(torch, dtype))
    keep = torch.tensor([row["keep"] for row in facts["rows"]], dtype=torch.bool)
    shares = masked(scores, keep).softmax(dim=1)
    assert shares[0].tolist() == pytest.approx(expected["row0"], abs=2e-3)
    assert shares.isfinite().all()
    assert shares[2, 2] == 0
