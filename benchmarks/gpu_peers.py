"""lightwork and the tuned Trainer on one device, with questions and a model made on the spot."""

from __future__ import annotations

import json
import random
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from transformers import AutoModelForQuestionAnswering

from benchmarks import peers
from benchmarks.figures import figures
from benchmarks.gpu_steps import Course
from lightwork.errors import LightworkError
from lightwork.tasks.extractive.model import load_tokenizer, save_model, train_tokenizer
from lightwork.tasks.extractive.reading import read_examples, texts

QUESTIONS = 1600
VOCABULARY = 800
WORDS = (
    "river house train water city king school army music letter summer winter church road game "
    "team island mountain paper field garden market bridge engine station father mother brother "
    "black white green small large early north south east west first second third long short"
).split()
"""Each one token of the usual English vocabularies, so that words count tokens."""


def race_tuned_trainer(course: Course, folder: Path) -> dict[str, float]:
    """Windows per second of lightwork, and its ratio to the Trainer's.

    Raises:
        LightworkError: one of the two did not get to its end.
    """
    train, model, out = folder / "train.json", folder / "model", folder / "results.json"
    count = 200 if course.miniature else QUESTIONS
    train.write_text(json.dumps(made_questions(count, course.base_length)), encoding="utf-8")
    save_base(course, train, model)
    steps, batch = (4, 8) if course.miniature else (30, 32)
    line = ["--mode", "steady", "--contenders", "lightwork,trainer-tuned", "--repeats", "1"]
    line += ["--train", str(train), "--model", str(model), "--out", str(out)]
    line += ["--device", course.device.type, "--ranks", "1", "--batch", str(batch)]
    line += ["--steps", str(steps), "--timeout-minutes", str(max(course.left_s(), 30) / 120)]
    try:
        with redirect_stdout(sys.stderr):  # the table goes on when this is done
            peers.main(line)
    except SystemExit as end:
        raise LightworkError(str(end.code).splitlines()[-1]) from None
    outcomes = json.loads(out.read_text(encoding="utf-8"))["modes"]["steady"]["outcomes"]
    ours, theirs = (figures(outcome, warmup_steps=3) for outcome in outcomes)
    return {
        "windows_per_s": ours["mean_windows_per_s"],
        "peak_mib": ours["peak_memory_mib"],
        "ratio": ours["mean_windows_per_s"] / theirs["mean_windows_per_s"],
        "memory_ratio": ours["peak_memory_mib"] / theirs["peak_memory_mib"],
    }


def save_base(course: Course, train: Path, target: Path) -> None:
    """A model of the course's shape with a tokenizer that knows the words of the questions."""
    if course.source is not None:
        tokenizer = load_tokenizer(course.source)
    else:
        train_tokenizer(texts(read_examples([train])), VOCABULARY, target)
        tokenizer = load_tokenizer(str(target))
    config = course.config()
    config.vocab_size = max(config.vocab_size, len(tokenizer))
    config.max_position_embeddings = max(config.max_position_embeddings, 384)
    save_model(AutoModelForQuestionAnswering.from_config(config), tokenizer, target)


def made_questions(count: int, longest_words: int) -> dict[str, Any]:
    """SQuAD whose contexts have a tenth of ``longest_words`` words up to all, as real ones vary."""
    draw = random.Random(5)
    paragraphs = []
    for number in range(count):
        drawn = draw.choices(WORDS, k=draw.randint(longest_words // 10, longest_words))
        context = " ".join(drawn)
        answer = {"text": drawn[0], "answer_start": 0}
        question = f"which word comes before {drawn[1]}"
        qas = [{"id": f"q{number}", "question": question, "answers": [answer]}]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "1.1", "data": [{"title": "made", "paragraphs": paragraphs}]}
