"""The page about data is right: its examples are read, its counts and classes are real."""

from __future__ import annotations

import re
from pathlib import Path

from lightwork.tasks.extractive.examples import NOTES
from lightwork.tasks.extractive.formats.hub import _NAME
from lightwork.tasks.extractive.gold import CLASSES
from lightwork.tasks.extractive.reading import read_examples
from tests.conftest import ROOT
from tests.tasks.made import written

PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """What stands in the blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below ``heading``, without its two first lines."""
    lines = PAGE.partition(f"\n## {heading}\n")[2].split("\n## ")[0].splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_its_examples_are_read(tmp_path: Path) -> None:
    read = [read_examples([written(tmp_path, block)]) for block in blocks("json")]
    read += [read_examples([written(tmp_path, block, "rows.csv")]) for block in blocks("text")]
    assert [examples.shapes[0] for examples in read] == [
        "SQuAD 2.0 (articles, paragraphs, qas)",
        "rows as JSON lines",
        "raw CMRC 2018",
        "CSV rows",
    ]
    for examples in read:
        assert examples.items[0].learned is not None
        assert examples.classes.keys() <= {"ok", "located"}
        assert examples.summary.keys() == {"examples", "contexts", "answers", "impossible"}


def test_every_count_is_told_and_is_one() -> None:
    told = set(re.findall(r"`(\w+)`", " ".join(row[-1] for row in rows("Rules"))))
    of_windows = list(NOTES)[list(NOTES).index("unusable_examples") :]
    assert told == NOTES.keys() - {"examples", "contexts", *of_windows}


def test_every_class_of_answers_with_an_offset_is_told() -> None:
    told = [row[0].strip("`") for row in rows("Answers that are not at their place")]
    assert told == [name for name in CLASSES if name not in ("located", "ambiguous", "unlocated")]


def test_its_names_of_the_hub_are_names() -> None:
    names = re.findall(r"hub:[\w./#\[\]:%-]+", PAGE)
    assert len(names) > 3
    assert all(_NAME.fullmatch(name) for name in names if "OWNER" not in name)
