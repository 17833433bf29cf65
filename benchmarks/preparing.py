"""What all contenders of a race start from: ``python -m benchmarks.preparing REQUEST``.

Runs in a process of its own, so that the one that measures stays small. REQUEST is the
file of a ``Request``. Written are the model (with one answer head for all, maybe fewer layers),
the training questions, and the windows of both files as the peers cache them.

**The same windows for everybody.** lightwork leaves out windows that do not hold the whole answer;
the peers' users label them "no answer". So that nobody computes more than another, only questions
whose text fits in one window are taken: each gives exactly one window under both rules.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForQuestionAnswering

from benchmarks.adapters.features import Features, tokenise
from benchmarks.adapters.spec import Request
from lightwork.errors import DataError, LightworkError
from lightwork.tasks.extractive.examples import Example
from lightwork.tasks.extractive.model import load_tokenizer, resolve_source
from lightwork.tasks.extractive.pretrained import quietly
from lightwork.tasks.extractive.reading import read_examples

MAX_QUESTION_TOKENS = 64
"""lightwork cuts longer questions, the peers do not: they are left out."""


def prepare(request: Request) -> None:
    """Prepare everything, then write ``prepared.json``: how many windows there are of what."""
    folder = Path(request.folder)
    tokenizer = _start_model(request, folder / "model")
    examples, features = chosen(request, tokenizer)
    features.save(folder / "train.npz")
    (folder / "train.json").write_text(squad(examples), encoding="utf-8")
    facts = {
        "windows": len(features.example),
        "mean_tokens": float(features.lengths.mean()),
        "longest_tokens": int(features.lengths.max()),
    }
    if request.dev_file is not None:
        dev = read_examples([Path(request.dev_file)], on_mismatch="drop").items
        dev_features = tokenise(tokenizer, dev, request.max_length, request.stride)
        dev_features.save(folder / "dev.npz")
        texts = [{"id": example.id, "context": example.context} for example in dev]
        (folder / "dev_examples.json").write_text(json.dumps(texts), encoding="utf-8")
        facts |= {"dev_questions": len(dev), "dev_windows": len(dev_features.example)}
    (folder / "prepared.json").write_text(json.dumps(facts), encoding="utf-8")


def _start_model(request: Request, target: Path) -> Any:
    """Write the model and its tokenizer to ``target``; the answer head is drawn here, once."""
    place = resolve_source(request.model)
    torch.manual_seed(request.seed)
    more = {} if request.layers is None else {"num_hidden_layers": request.layers}
    with quietly():
        model = AutoModelForQuestionAnswering.from_pretrained(place, use_safetensors=True, **more)
        model.float().save_pretrained(target)
    tokenizer = load_tokenizer(place)
    tokenizer.save_pretrained(target)
    return load_tokenizer(str(target))


def chosen(request: Request, tokenizer: Any) -> tuple[list[Example], Features]:
    """A random draw of usable training questions in the order of the file, and their windows.

    Raises:
        DataError: the file has fewer of them than asked for.
    """
    items = read_examples([Path(request.train_file)]).items
    items = [example for example in items if example.answers and not example.unusable]
    features = tokenise(tokenizer, items, request.max_length, request.stride)
    windows_of = np.bincount(features.example, minlength=len(items))
    question_tokens = features.context[:, 0] - 2  # what is before: [CLS], the question, [SEP]
    cls_labelled = features.labels[:, 0] == 0
    usable = np.flatnonzero(
        (windows_of[features.example] == 1)
        & (question_tokens <= MAX_QUESTION_TOKENS)
        & ~cls_labelled
    ).tolist()
    count = len(usable) if request.windows is None else request.windows
    if count > len(usable) or not usable:
        raise DataError(
            f"{request.train_file}: {count:,} training windows were asked for, but only "
            f"{len(usable):,} of its {len(items):,} answered questions fit in one window; "
            "give a larger file or fewer --windows"
        )
    windows = sorted(random.Random(request.seed).sample(usable, count))
    examples = [items[features.example[window]] for window in windows]
    numbers = np.arange(count, dtype=np.int32)
    return examples, replace(features.only(windows), example=numbers)


def squad(examples: list[Example]) -> str:
    """SQuAD 1.1 JSON of ``examples``, in order."""
    paragraphs: list[dict[str, Any]] = []
    for example in examples:
        if not paragraphs or paragraphs[-1]["context"] != example.context:
            paragraphs.append({"context": example.context, "qas": []})
        answers = [{"text": a.text, "answer_start": a.start} for a in example.answers]
        paragraphs[-1]["qas"].append(
            {"id": example.id, "question": example.question, "answers": answers}
        )
    return json.dumps({"version": "1.1", "data": [{"title": "train", "paragraphs": paragraphs}]})


if __name__ == "__main__":
    try:
        prepare(Request.load(sys.argv[1]))
    except LightworkError as error:
        sys.exit(str(error))
