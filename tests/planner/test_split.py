"""Held-out questions: whole articles, nothing lost, the same at every call."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightwork.errors import DataError
from lightwork.planner import split as splitting
from lightwork.planner.split import Split, split_questions
from tests.planner.made import article, by_id
from tests.tasks.made import qa, written


def split_and_read(folder: Path, *files: Path) -> tuple[Split, dict[str, Any], dict[str, Any]]:
    """The split, and the examples of its two sides; nothing may be lost, changed or doubled."""
    before = [file.read_bytes() for file in files]
    split = split_questions(files)
    assert [file.read_bytes() for file in files] == before
    train = by_id(written(folder, split.train, "split.train.json"))
    dev = by_id(written(folder, split.dev, "split.dev.json"))
    assert {**train, **dev} == by_id(*files)
    assert (len(train), len(dev)) == (split.train_questions, split.dev_questions)
    assert not train.keys() & dev.keys()
    shared = {example.context for example in train.values()} & {
        example.context for example in dev.values()
    }
    assert not shared
    return split, train, dev


def articles(count: int, paragraphs: int = 2, questions: int = 5) -> list[dict[str, Any]]:
    return [
        article(f"T{a}", *[(f"w{a}x{p} is a text", questions) for p in range(paragraphs)])
        for a in range(count)
    ]


def test_whole_articles_are_held_out(tmp_path: Path) -> None:
    file = written(tmp_path, {"version": "1.1", "data": articles(40)})
    split, train, dev = split_and_read(tmp_path, file)
    assert split.by == "article"
    assert (len(train), len(dev)) == (360, 40)
    assert (split.train_groups, split.dev_groups) == (36, 4)
    titles = [{key.partition("-")[0] for key in side} for side in (train, dev)]
    assert not titles[0] & titles[1]
    assert {entry["title"] for entry in json.loads(split.dev)["data"]} == titles[1]
    assert json.loads(split.train)["version"] == "1.1"


def test_the_same_every_time_and_drawn_by_chance(tmp_path: Path) -> None:
    file = written(tmp_path, {"data": articles(40)})
    assert split_questions([file]) == split_questions([file])
    held = [entry["title"] for entry in json.loads(split_questions([file]).dev)["data"]]
    assert held != [f"T{a}" for a in range(4)]


def test_everything_that_a_file_says_stays(tmp_path: Path) -> None:
    plausible = [{"text": "w", "answer_start": 0}]
    data = articles(8)
    for entry in data:
        entry["source"] = "letters"
        paragraph = entry["paragraphs"][0]
        paragraph["document_id"] = 7
        answers = [{"text": "is", "answer_start": paragraph["context"].index("is"), "by": "A"}] * 2
        paragraph["qas"] += [
            qa(f"{entry['title']}-no", [], is_impossible=True, plausible_answers=plausible),
            qa(f"{entry['title']}-two", answers, is_impossible=False),
        ]
    split, _, _ = split_and_read(tmp_path, written(tmp_path, {"version": "v2.0", "data": data}))
    sides = [json.loads(side) for side in (split.train, split.dev)]
    assert [side["version"] for side in sides] == ["v2.0", "v2.0"]
    whole = sides[0]["data"] + sides[1]["data"]
    assert sorted(whole, key=lambda entry: entry["title"]) == data


ROWS = [
    {
        "id": f"{t}-{c}-{i}",
        "title": f"T{t}",
        "context": f"w{t} c{c} text",
        "question": "Who?",
        "answers": {"text": ["text"], "answer_start": [f"w{t} c{c} text".index("text")]},
    }
    for t in range(10)
    for c in range(2)
    for i in range(3)
]


@pytest.mark.parametrize("shape", ["lines", "data", "list"])
def test_flat_rows_become_squad(tmp_path: Path, shape: str) -> None:
    content: Any = {"data": ROWS} if shape == "data" else ROWS
    if shape == "lines":
        content = "\ufeff" + "\r\n".join(json.dumps(row) for row in ROWS) + "\n"
    split, _, dev = split_and_read(tmp_path, written(tmp_path, content))
    assert (split.by, len(dev)) == ("article", 12)
    entry, _ = json.loads(split.dev)["data"]
    first = entry["paragraphs"][0]
    assert len(first["qas"]) == 3
    assert first["qas"][0]["answers"] == [{"text": "text", "answer_start": 6}]


def test_rows_without_titles_and_answers(tmp_path: Path) -> None:
    rows = [
        {"id": i, "context": f"c{i // 2}", "question": "?", "is_impossible": True}
        for i in range(20)
    ]
    split, _, dev = split_and_read(tmp_path, written(tmp_path, {"data": rows}))
    assert split.by == "context"
    assert len(dev) == 4


def test_one_title_is_split_by_context(tmp_path: Path) -> None:
    entry = article("all", *[(f"w{i} text", 3) for i in range(30)])
    split, _, dev = split_and_read(tmp_path, written(tmp_path, {"data": [entry]}))
    assert (split.by, split.dev_groups, len(dev)) == ("context", 6, 18)


def test_one_huge_article_does_not_make_half_the_data_held_out(tmp_path: Path) -> None:
    data = [
        article("small", ("a tiny text", 1)),
        article("huge", *[(f"w{i} text", 4) for i in range(99)]),
    ]
    split, _, dev = split_and_read(tmp_path, written(tmp_path, {"data": data}))
    assert split.by == "context"
    assert len(dev) == 40


def test_untitled_documents_stay_whole(tmp_path: Path) -> None:
    data = [article(None, (f"w{i} one", 2), (f"w{i} two", 2)) for i in range(12)]
    for number, entry in enumerate(data):
        for paragraph in entry["paragraphs"]:
            for question in paragraph["qas"]:
                question["id"] += f"-{number}"
    split, _, dev = split_and_read(tmp_path, written(tmp_path, {"data": data}))
    assert (split.by, split.dev_groups) == ("article", 3)
    assert len(dev) == 12


def test_articles_that_share_a_context_stay_together(tmp_path: Path) -> None:
    data = [article(f"T{a}", (f"w{a // 2} shared", 2), (f"w{a} own", 2)) for a in range(60)]
    split, _, dev = split_and_read(tmp_path, written(tmp_path, {"data": data}))
    assert split.by == "article"
    assert split.dev_groups + split.train_groups == 30
    assert len(dev) == 24


def test_a_title_in_two_files_is_one_article(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        data = [article(f"T{a}", (f"{name}{a} text", 5)) for a in range(10)]
        for entry in data:
            for question in entry["paragraphs"][0]["qas"]:
                question["id"] = name + question["id"]
        files.append(written(tmp_path, {"data": data}, f"{name}.json"))
    split, _, dev = split_and_read(tmp_path, *files)
    assert (split.by, split.dev_groups) == ("article", 2)
    assert {key[1:3] for key in dev if key[0] == "a"} == {key[1:3] for key in dev if key[0] == "b"}


def test_of_large_sets_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert splitting.MOST_QUESTIONS == 2000
    monkeypatch.setattr(splitting, "MOST_QUESTIONS", 45)
    _, _, dev = split_and_read(tmp_path, written(tmp_path, {"data": articles(100)}))
    assert len(dev) == 40


def test_one_context_cannot_be_split(tmp_path: Path) -> None:
    file = written(tmp_path, {"data": [article("only", ("one text", 9))]}, "mine.json")
    with pytest.raises(DataError, match=r"mine.json: all 9 questions .* one context.*--dev FILE"):
        split_questions([file])


def test_half_a_surrogate_pair_where_nobody_reads(tmp_path: Path) -> None:
    data = articles(8)
    data[3]["note"] = "\ud83d"
    split_and_read(tmp_path, written(tmp_path, json.dumps({"data": data})))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "A", "B", "C", "D"]),
            st.text(string.ascii_lowercase[:6], min_size=1, max_size=3),
            st.integers(0, 30),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_whatever_the_sizes(
    tmp_path_factory: pytest.TempPathFactory, shape: list[tuple[str, str, int]]
) -> None:
    data = []
    for number, (title, context, count) in enumerate(shape):
        entry = article(title, (context, count))
        for index, question in enumerate(entry["paragraphs"][0]["qas"]):
            question["id"] = f"{number}-{index}"
        data.append(entry)
    asked = {context for _, context, count in shape if count}
    if not asked:
        return
    folder = tmp_path_factory.mktemp("split")
    file = written(folder, {"data": data})
    if len(asked) < 2:
        with pytest.raises(DataError):
            split_questions([file])
        return
    split, train, dev = split_and_read(folder, file)
    assert train
    assert dev
    total = len(train) + len(dev)
    largest = max(sum(c for _, text, c in shape if text == context) for context in asked)
    assert len(dev) <= max(total / 2, 2 * largest)
    assert split.dev_groups >= 1
