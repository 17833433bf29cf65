"""The two files of the sample, in the shape of SQuAD 1.1."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightwork.tasks.extractive.sample import chinese, english
from lightwork.tasks.extractive.sample.draw import Draw
from lightwork.tasks.extractive.sample.names import Lexicon, Register, deal
from lightwork.tasks.extractive.sample.story import paragraph

SEED = 2024
TRAIN_PARAGRAPHS, DEV_PARAGRAPHS = 3200, 120
PARAGRAPHS_PER_ARTICLE = 10
CHINESE_EVERY = 5
LONG_EVERY = 61
"""One paragraph in this many tells of so many subjects that it needs several windows."""
SUBJECTS, SUBJECTS_WHEN_LONG = 1, 3


def write_sample(folder: Path) -> tuple[Path, Path]:
    """Write ``train.json`` and ``dev.json`` below ``folder`` and return their paths.

    A file that already holds the sample is left alone, and one that holds anything else raises
    ``FileExistsError``. A new file appears in one move, so a reader never sees half of it. The
    bytes are the same on every machine. ``OSError`` when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.json", folder / "dev.json"
    for path, articles in zip(paths, _sample(), strict=True):
        content = {"version": "1.1", "data": articles}
        _publish(path, json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n")
    return paths


def _publish(path: Path, content: bytes) -> None:
    if path.exists():
        if path.is_file() and path.read_bytes() == content:
            return
        reason = "it exists and holds something else"
        raise FileExistsError(errno.EEXIST, reason, str(path))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)


def _sample() -> Iterator[list[dict[str, Any]]]:
    """The articles of training, then those of dev."""
    draw = Draw(SEED)
    english_names = deal(draw, english.NAMES)
    chinese_names = deal(draw, chinese.NAMES)
    for place, (part, count) in enumerate((("train", TRAIN_PARAGRAPHS), ("dev", DEV_PARAGRAPHS))):
        yield _articles(draw, (english_names[place], chinese_names[place]), part, count)


def _articles(
    draw: Draw, names: tuple[Lexicon, Lexicon], part: str, count: int
) -> list[dict[str, Any]]:
    paragraphs = [_paragraph(draw, names, number) for number in range(count)]
    for number, told in enumerate(paragraphs):
        for place, question in enumerate(told["qas"]):
            question["id"] = f"{part}-{number:04d}-{place}"
    return [
        {
            "title": f"{part} {start // PARAGRAPHS_PER_ARTICLE + 1}",
            "paragraphs": paragraphs[start : start + PARAGRAPHS_PER_ARTICLE],
        }
        for start in range(0, count, PARAGRAPHS_PER_ARTICLE)
    ]


def _paragraph(draw: Draw, names: tuple[Lexicon, Lexicon], number: int) -> dict[str, Any]:
    is_chinese = number % CHINESE_EVERY == CHINESE_EVERY - 1
    count = SUBJECTS_WHEN_LONG if number % LONG_EVERY == LONG_EVERY - 1 else SUBJECTS
    language = chinese if is_chinese else english
    register = Register(draw, names[is_chinese])
    if draw.below(2):
        themes, holes = language.PEOPLE, language.people(draw, register, count)
    else:
        themes, holes = language.PLACES, language.places(draw, register, count)
    cast = [dict(zip(holes, facts, strict=True)) for facts in zip(*holes.values(), strict=True)]
    return paragraph(draw, themes, register.one("town"), cast)
