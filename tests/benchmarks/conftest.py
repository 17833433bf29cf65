"""A race in miniature: easy questions and a model of a few thousand weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    load_tokenizer,
    save_model,
    train_tokenizer,
)
from lightwork.tasks.extractive.reading import read_examples, texts

COLOURS = ["red", "green", "blue", "white", "black", "amber", "violet"]
THINGS = ["door", "boat", "lamp", "coat", "bell"]


@dataclass(frozen=True)
class Course:
    """Where everything lies that a race needs."""

    train: Path
    dev: Path
    model: Path


def questions(count: int, first: int) -> dict[str, Any]:
    """SQuAD with contexts of four lengths; the longest do not fit in one window of 80 tokens."""
    paragraphs = []
    for number in range(first, first + count):
        colour, thing = COLOURS[number % 7], THINGS[number % 5]
        filler = "nobody came and the street was quiet . " * (3 * (number % 4))
        context = f"{filler}here is a {colour}, big {thing}. good night"
        answer = {"text": colour, "answer_start": context.index(colour)}
        question = f"what colour is the {thing} ?"
        qas = [{"id": f"q{number}", "question": question, "answers": [answer]}]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Questions and a small model, made once."""
    folder = tmp_path_factory.mktemp("course")
    course = Course(folder / "train.json", folder / "dev.json", folder / "model")
    course.train.write_text(json.dumps(questions(100, 0)))
    course.dev.write_text(json.dumps(questions(35, 500)))
    train_tokenizer(texts(read_examples([course.train])), 200, course.model)
    tokenizer = load_tokenizer(str(course.model))
    torch.manual_seed(1)
    model = build_model(
        "scratch",
        dropout=0.0,
        weights=True,
        scratch=ScratchShape(layers=2, hidden=64, heads=2, intermediate=128, positions=96),
        vocabulary=len(tokenizer),
    )
    save_model(model, tokenizer, course.model)
    return course
