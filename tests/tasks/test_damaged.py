"""Whatever is done to a file: it is read with all its promises, or told in a ``DataError``."""

from __future__ import annotations

import copy
import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import SHOWN, Examples
from lightwork.tasks.extractive.gold import OnMismatch
from lightwork.tasks.extractive.reading import read_examples, read_questions
from tests.tasks.made import qa, squad

CONTEXT = "Zoe\u0308 Marr 林 \U0001f3ad runs the shop."
GOLD = [{"text": "林", "answer_start": 10}, {"text": "shop", "answer_start": 23}]
NESTED = squad(CONTEXT, qa("q1", GOLD), qa("q2", [], is_impossible=True))
ROW = {
    "id": "q1",
    "question": "Who?",
    "context": CONTEXT,
    "answers": {"text": ["林"], "answer_start": [10]},
}
RAW = {
    "context_text": CONTEXT,
    "qas": [{"query_id": "r1", "query_text": "?", "answers": ["林", "王", "o"]}],
}
DOCUMENTS = [NESTED, {"data": [ROW, {**ROW, "id": 2}]}, [RAW], ROW]
LINES = "\n".join(json.dumps({**ROW, "id": i}, ensure_ascii=False) for i in range(4)).encode()
TABLE = f'id,question,context,answer_text,answer_start\n1,Who?,"{CONTEXT}",林,10\n'.encode()
FILES = {
    "nested.json": json.dumps(NESTED).encode(),
    "rows.jsonl": LINES,
    "rows.csv": TABLE,
    "rows.jsonl.gz": gzip.compress(LINES),
}

WAYS: list[OnMismatch] = ["stop", "repair", "drop"]

quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
numbers = st.one_of(
    st.integers(-3, 40), st.just(10**4000), st.floats(), st.sampled_from([10.0, 1e300, -0.0])
)
words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "林", "10", "-1", "9" * 5000, "\ud83d", "q1", "o", "a\x1b[2J\n"]),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(words, st.sampled_from(["text", "answer_start", "context", "options"])),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


def read_all_ways(name: str, content: bytes) -> None:
    """Read ``content`` in every way there is; only a ``DataError`` may come of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        for way in WAYS:
            told = ""
            try:
                check_promises(read_examples([path], on_mismatch=way, on_repeated="number"))
            except DataError as error:
                told = str(error)
            check_message(told, path)
        told = ""
        try:
            read_questions([path])
        except DataError as error:
            told = str(error)
        check_message(told, path)


def check_message(told: str, path: Path) -> None:
    """It names the file, can be written anywhere, and neither floods nor steers a terminal."""
    assert not told or str(path) in told
    assert len(told.encode()) < 6000
    assert "\x1b" not in told


def check_promises(read: Examples) -> None:
    """What everything that follows reading relies on."""
    assert len({item.id for item in read}) == len(read) > 0
    for item in read:
        assert item.impossible == (not item.answers)
        for answer in item.answers:
            assert answer.text.strip()
            place = answer.start
            assert place is None or item.context[place : place + len(answer.text)] == answer.text
        if not item.unusable:
            assert item.impossible or item.learned
        for text in (item.id, item.question, item.context):
            text.encode()
    classes, summary = read.classes, read.summary
    assert sum(classes.values()) == summary["answers"]
    placed = classes.get("ok", 0) + classes.get("located", 0) + summary.get("repaired_answers", 0)
    starts = [answer.start for item in read for answer in item.answers]
    assert sum(start is not None for start in starts) == placed
    assert all(0 < len(ids) <= SHOWN for ids in read.listed.values())


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside ``value``, itself included."""
    found = [path]
    steps = value.items() if isinstance(value, dict) else ()
    for step, inner in enumerate(value) if isinstance(value, list) else steps:
        found += places(inner, (*path, step))
    return found


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """``document`` with ``value`` at ``path``."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    spot = changed
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", list(FILES))
@quick
@given(data=st.data())
def test_cut_off_and_flipped_files(name: str, data: st.DataObject) -> None:
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b'"{}[],:\\\n0')))
    first, last = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(content))])))
    cut = data.draw(st.sampled_from(["none", "end", "inside"]))
    if cut == "end":
        content = content[:last]
    elif cut == "inside":
        content = content[:first] + content[last:]
    read_all_ways(name, bytes(content))


@pytest.mark.parametrize("document", DOCUMENTS, ids=["nested", "rows", "raw", "row"])
@quick
@given(data=st.data())
def test_any_value_in_any_place(document: Any, data: st.DataObject) -> None:
    changed = document
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(places(changed)))
        changed = replaced(changed, path, data.draw(values))
    read_all_ways("data.json", json.dumps(changed).encode())


DIGITS = "9" * 5000
ESCAPED = '[{"a": {"a": 1}, "b": "\\"a\\":"},\n{"b": "a", "c": [{"\\u0062": 1, "b": 2}]}]'


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (
            '{"data": [],\n "data": [1]}',
            "'data' stands twice in one object, again at line 2, column 2",
        ),
        (ESCAPED, "the key 'b' stands twice in one object, again at line 2, column 32"),
        ('\n\n{"a": 1, "a": 1}', "again at line 3, column 10"),
        (f'[0.{DIGITS}, "{DIGITS}",\n -{DIGITS}]', "too many digits, at line 2, column 2"),
        ("[\n" + '{"a": [' * 600, "too deeply, at line 2, column 700"),
        ('{"text": "' + "[" * 500 + '", "a":\n' + "[" * 100_000, "at line 2, column 200"),
    ],
)
def test_what_the_decoder_does_not_place_has_a_place(
    tmp_path: Path, content: str, part: str
) -> None:
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_examples([path])
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"id": 1, "id": 2}', "the key 'id' stands twice in one object, again at column 11"),
        (f'{{"id": {DIGITS}}}', "a number has too many digits, at column 8"),
    ],
)
def test_a_line_has_its_column(tmp_path: Path, line: str, part: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + line)
    with pytest.raises(DataError) as caught:
        read_examples([path])
    assert str(caught.value).endswith(part)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "git lfs pull"),
        (b"<!doctype html>\n<title>404</title>", "begins like a web page (HTML)"),
        (b'id,"question",context,answers\n1,a,b,c', "a name that ends in .csv"),
        (b"id\tquestion\tcontext\tanswers\n1\ta\tb\tc", "a name that ends in .tsv"),
        ("{}".encode("utf-16-le"), "zero bytes"),
        ("{}".encode("utf-16"), "begins like UTF-16"),
        (b"\xfe\xff" + "{}".encode("utf-16-be"), "begins like UTF-16"),
        ("{}".encode("utf-32"), "begins like UTF-32"),
        (b"\x00\x00\xfe\xff" + "{}".encode("utf-32-be"), "begins like UTF-32"),
    ],
)
def test_a_file_that_is_something_else_says_what(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_examples([path])
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@quick
@given(data=st.data())
def test_a_repeated_key_is_found_anywhere(data: st.DataObject) -> None:
    """Whatever else is in the document, the place is that of the second key."""
    path = data.draw(st.sampled_from(places(NESTED)))
    document = replaced(NESTED, path, {"mark": data.draw(values), "other": 1})
    text = json.dumps(document, indent=data.draw(st.sampled_from([None, 1])))
    before = text.index('"other"')
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.json"
        file.write_text(f'{text[:before]}"mark": 0, {text[before:]}')
        with pytest.raises(DataError) as caught:
            read_examples([file])
    line, column = text.count("\n", 0, before) + 1, before - text.rfind("\n", 0, before)
    assert str(caught.value).endswith(
        f"the key 'mark' stands twice in one object, again at line {line}, column {column}"
    )


@quick
@given(data=st.data())
def test_damaged_parquet(data: st.DataObject) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{**ROW, "id": f"q{i}"} for i in range(3)]
    whole = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows), whole, compression="none")
    content = bytearray(whole.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    read_all_ways("rows.parquet", bytes(content))
