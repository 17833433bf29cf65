"""CSV, TSV, Parquet, and gzip around any format: the same questions as from JSON, untouched."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import Answer, Example
from lightwork.tasks.extractive.reading import read_examples, read_questions
from tests.tasks.made import qa, squad, written

CONTEXT = 'Ada "Pell" runs\r\nthe shop,\tin Kell. \u2028NA'
ROWS: list[dict[str, Any]] = [
    {
        "id": "001",
        "question": "NA",
        "context": CONTEXT,
        "answers": {"text": ["Kell", "in Kell"], "answer_start": [30, 27]},
    },
    {
        "id": "null",
        "question": "None?",
        "context": CONTEXT,
        "answers": {"text": [], "answer_start": []},
    },
]
EXAMPLES = [
    Example("001", "NA", CONTEXT, (Answer("Kell", 30), Answer("in Kell", 27)), False),
    Example("null", "None?", CONTEXT, (), True),
]


def table(folder: Path, rows: list[dict[str, Any]], name: str = "rows.csv") -> Path:
    """A CSV file as a spreadsheet would write it."""
    path = folder / name
    with path.open("w", encoding="utf-8", newline="") as file:
        delimiter = "\t" if ".tsv" in name else ","
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def parquet(folder: Path, rows: list[dict[str, Any]], name: str = "rows.parquet") -> Path:
    """A Parquet file with one small group of rows after the other."""
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files.write_table(arrow.Table.from_pylist(rows), folder / name, row_group_size=1)
    return folder / name


def told(path: Path) -> str:
    """The one line that reading ``path`` ends with."""
    with pytest.raises(DataError) as caught:
        read_examples([path])
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "ROWS.CSV"])
def test_a_table_of_text_is_read_as_it_stands(tmp_path: Path, name: str) -> None:
    rows = [{**row, "answers": json.dumps(row["answers"]), "more": "x"} for row in ROWS]
    rows[1]["answers"] = ""
    read = read_examples([table(tmp_path, rows, name)])
    assert read.items == EXAMPLES
    assert read.shapes == (f"{name[-3:].upper()} rows",)
    assert "odd_starts" not in read.summary


def test_parquet_is_read_as_it_stands(tmp_path: Path) -> None:
    read = read_examples([parquet(tmp_path, [{**row, "title": "x"} for row in ROWS])])
    assert read.items == EXAMPLES
    assert read.shapes == ("Parquet rows",)
    listed = [{**row, "answers": json.dumps(row["answers"])} for row in ROWS]
    assert read_examples([parquet(tmp_path, listed, "text.parquet")]).items == EXAMPLES


SINGLE = [
    {"id": 1, "question": "Who?", "context": "Ada", "answer_text": "Ada", "answer_start": 0},
    {"id": 2, "question": "Why?", "context": "Ada", "answer_text": None, "answer_start": None},
]


@pytest.mark.parametrize("write", [table, parquet])
def test_columns_for_one_answer(tmp_path: Path, write: Any) -> None:
    read = read_examples([write(tmp_path, SINGLE)])
    assert [(item.id, item.answers) for item in read] == [("1", (Answer("Ada", 0),)), ("2", ())]
    assert read.summary["impossible"] == 1
    wrong = [{**SINGLE[0], "answer_start": None}]
    with pytest.raises(DataError, match=r"\(no_start 1\)"):
        read_examples([write(tmp_path, wrong)])


@pytest.mark.parametrize("start", ["4.0", 4.0])
def test_a_start_with_a_point_is_read_alike_in_every_format(tmp_path: Path, start: Any) -> None:
    """pandas writes 4.0 into a column with gaps."""
    row = {"id": "1", "question": "Who?", "context": "Dr. Ada"}
    one = [{**row, "answer_text": "Ada", "answer_start": start}]
    listed = [{**row, "answers": [{"text": "Ada", "answer_start": start}]}]
    for path in (table(tmp_path, one), parquet(tmp_path, one), written(tmp_path, listed)):
        read = read_examples([path])
        assert read.items[0].answers == (Answer("Ada", 4),)
        assert read.listed["odd_starts"] == ["1"]


def test_flags_of_a_table(tmp_path: Path) -> None:
    flags = ["False", "true", "", "maybe"]
    rows = [{**SINGLE[0], "id": f"q{i}", "is_impossible": flag} for i, flag in enumerate(flags)]
    read = read_examples([table(tmp_path, rows)])
    assert read.listed["flag_conflicts"] == ["q1", "q3"]


def test_a_table_without_answers_may_be_asked(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in ("id", "question", "context")} for row in ROWS]
    for path in (table(tmp_path, rows), parquet(tmp_path, rows)):
        assert [item.context for item in read_questions([path])] == [CONTEXT, CONTEXT]
        with pytest.raises(DataError, match="2 questions have no answers that can be read") as no:
            read_examples([path])
        assert "(id 001): expected an object with answers, found" in str(no.value)


def test_answers_of_a_table_are_not_looked_at_where_there_is_only_to_answer(
    tmp_path: Path,
) -> None:
    rows = [{**row, "answers": "array(['Kell'])"} for row in ROWS]
    assert len(read_questions([table(tmp_path, rows)])) == 2


def test_a_context_may_be_longer_than_the_usual_limit(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    rows = [{**SINGLE[0], "context": "Ada " + "x" * (before + 1)}]
    assert len(read_examples([table(tmp_path, rows)]).items[0].context) > before
    assert csv.field_size_limit() == before


HEADER = "id,question,context,answers\n"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (HEADER, "0 questions"),
        ("\n \n", "the file is empty"),
        ("a,b\n1,2\n", "line 1: expected columns id, question, context and answers (or answer_te"),
        ("question,options,answer\n", "multiple-choice"),
        ("question,answer\n", "freely"),
        (HEADER.replace("answers", "id"), "the column 'id' stands twice"),
        ("version https://git-lfs.github.com/spec/v1\noid x\n", "git lfs pull"),
        (HEADER + "1,Who?,Ada\n", "line 2: expected 4 cells, found 3"),
        (HEADER + '1,Who?,"Ada', "line 2: not CSV as in RFC 4180"),
        (HEADER + '1,"Who"?,Ada,\n', "line 2: not CSV as in RFC 4180"),
        (HEADER + "1,Who?,Ada,Ada\n", "line 2.answers (id 1): expected JSON such as"),
        (HEADER + '1,Who?,Ada,"[""Ada""]"\n', "line 2.answers[0] (id 1): expected an object"),
        (HEADER + "1,Who?,Ada,3\n", "line 2.answers (id 1): expected a list of {text"),
        (b"id,question,context\n1,\xff,x", "not valid UTF-8 at byte 22"),
    ],
)
def test_a_wrong_table_is_told_in_one_line(tmp_path: Path, content: Any, part: str) -> None:
    assert part in told(written(tmp_path, content, "rows.csv"))


def test_a_wrong_parquet_file_is_told_in_one_line(tmp_path: Path) -> None:
    good = parquet(tmp_path, ROWS).read_bytes()
    for content in (good[:-9], good[:40], good[:60] + b"\xff" * 60 + good[120:]):
        assert "not a Parquet file that can be read" in told(
            written(tmp_path, content, "broken.parquet")
        )
    assert "is not Parquet" in told(written(tmp_path, "{}", "text.parquet"))
    other = parquet(tmp_path, [{"question": "?", "answer": "!"}])
    assert "freely" in told(other)
    binary = parquet(tmp_path, [{**SINGLE[0], "context": b"\xff"}])
    assert "row 1.context: expected a text, found the bytes" in told(binary)


def test_parquet_without_its_packages_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path, ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install 'lightwork[tables]'" in told(path)
    csv_file = table(tmp_path, SINGLE)
    assert len(read_examples([csv_file])) == 2  # needs no package


def packed(path: Path, name: str) -> Path:
    """``path`` packed with gzip."""
    target = path.with_name(name)
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def test_gzip_is_read_whatever_is_in_it_and_whatever_its_name(tmp_path: Path) -> None:
    gold = [{"text": "Ada", "answer_start": 0}]
    nested = written(tmp_path, squad("Ada", qa("1", gold, "Who?")))
    lines = written(tmp_path, "\n".join(map(json.dumps, ROWS)) + "\n", "lines.jsonl")
    for path, name, shape in [
        (nested, "nested.json.gz", "SQuAD 2.0 (articles, paragraphs, qas), gzip"),
        (nested, "nested-without-a-name", "SQuAD 2.0 (articles, paragraphs, qas), gzip"),
        (lines, "lines.gz", "rows as JSON lines, gzip"),
        (table(tmp_path, SINGLE), "rows.csv.gz", "CSV rows, gzip"),
        (parquet(tmp_path, ROWS), "rows.parquet.gz", "Parquet rows, gzip"),
    ]:
        read = read_examples([packed(path, name)])
        assert read.items == read_examples([path]).items
        assert read.shapes == (shape,)


def test_a_damaged_gzip_file_is_told_in_one_line(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({**ROWS[0], "id": i}) for i in range(3000))
    whole = gzip.compress(lines.encode())
    for cut in (len(whole) - 3, len(whole) // 2, 12, 5):
        assert "cut off" in told(written(tmp_path, whole[:cut], "cut.jsonl.gz"))
    for place in (-6, 10):  # the checksum, the code table
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        assert "damaged" in told(written(tmp_path, bytes(damaged), "noise.jsonl.gz"))
    assert "not gzip" in told(written(tmp_path, lines, "plain.jsonl.gz"))
    assert "a zip archive" in told(written(tmp_path, b"PK\x03\x04" + bytes(30), "rows.zip"))


def test_only_the_lines_that_are_wanted_are_read(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({**ROWS[0], "id": i}) for i in range(5)) + "\n{broken"
    assert len(read_examples([written(tmp_path, lines)], limit=5)) == 5
