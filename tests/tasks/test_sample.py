"""The built-in sample: the same bytes everywhere, right answers, readable sentences."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.sample import write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_sample(tmp_path_factory.mktemp("sample"))


def paragraphs(path: Path) -> list[dict[str, Any]]:
    articles = json.loads(path.read_bytes())["data"]
    return [paragraph for article in articles for paragraph in article["paragraphs"]]


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def test_the_bytes_are_the_same_everywhere(sample: tuple[Path, Path]) -> None:
    digests = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in sample]
    assert digests == DIGESTS


def test_every_answer_is_where_it_says(sample: tuple[Path, Path]) -> None:
    train, dev = (read_examples([path]) for path in sample)  # refuses any that is not
    assert len(train.items) > 10_000
    assert 400 < len(dev.items) < 1_000


def test_dev_asks_about_names_unseen_in_training(sample: tuple[Path, Path]) -> None:
    train, dev = (paragraphs(path) for path in sample)
    known = set(re.findall(r"[A-Z][a-z]+", " ".join(p["context"] for p in train)))
    answers = [q["answers"][0]["text"] for p in dev for q in p["qas"]]
    names = {w for a in answers for w in re.findall(r"[A-Z][a-z]+", a)}
    assert len(names) > 50
    assert not names & known


def test_a_fifth_is_chinese(sample: tuple[Path, Path]) -> None:
    for path in sample:
        told = [is_chinese(p["context"]) for p in paragraphs(path)]
        assert sum(told) / len(told) == pytest.approx(0.2, abs=0.02)


def test_some_contexts_are_longer(sample: tuple[Path, Path]) -> None:
    lengths = sorted(
        len(p["context"]) for p in paragraphs(sample[0]) if not is_chinese(p["context"])
    )
    assert lengths[-1] > 1.5 * lengths[len(lengths) // 2]


def test_sentences_are_readable(sample: tuple[Path, Path]) -> None:
    for paragraph in paragraphs(sample[0])[:500]:
        for text in (paragraph["context"], *(q["question"] for q in paragraph["qas"])):
            assert text == text.strip()
            assert "  " not in text
            assert "{" not in text
            assert text[-1] in ".?。？"


def test_writing_again_changes_nothing(sample: tuple[Path, Path]) -> None:
    before = [path.stat().st_mtime_ns for path in sample]
    assert write_sample(sample[0].parent) == sample
    assert [path.stat().st_mtime_ns for path in sample] == before


def test_what_somebody_changed_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("mine")
    with pytest.raises(FileExistsError):
        write_sample(tmp_path)
    assert (tmp_path / "dev.json").read_text() == "mine"


DIGESTS = ["06b007f1b8f08103", "a82cfd9ec4d807c2"]
