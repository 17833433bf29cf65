"""The task as the rest of the house uses it."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lightwork.tasks.contract import Task
from lightwork.tasks.extractive.model import ScratchShape, build_model
from lightwork.tasks.extractive.scoring.score import Gold, NoAnswer, score_answers
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import Columns, example, examples, word_tokenizer

SHAPE = ScratchShape(layers=3, hidden=16, heads=2, intermediate=32, positions=64)


def made_task(pad_left: bool = False, no_answer: bool = False) -> ExtractiveTask:
    return ExtractiveTask(
        pad_id=0,
        pad_left=pad_left,
        uses_type_ids=True,
        answering=Answering(n_best=4, max_answer_tokens=5, no_answer=no_answer),
    )


@pytest.fixture(scope="module")
def rows() -> Columns:
    items = examples(
        example("q1", "Which run?", "w1 w2 w3 w4 w5 w6 w7 w8 w9", "w8"),
        example("q2", "Which?", "w1 w2", "w2", "w1 w2"),
        example("q3", "Which?", " "),
    )
    tokenizer = word_tokenizer(text for item in items for text in (item.question, item.context))
    windows = build_windows(items, tokenizer, WindowOptions(10, 2, 2), training=False)
    return Columns(windows)


def test_it_fulfils_the_contract() -> None:
    task: Task = made_task()
    assert task.name == "extractive"


@pytest.mark.parametrize("pad_left", [False, True])
def test_collate_pads_on_the_side_of_the_tokenizer(rows: Columns, pad_left: bool) -> None:
    batch = made_task(pad_left).collate(rows, np.array([3, 0]), 16)
    real = [int(rows.column("tokens")[window]) for window in (3, 0)]
    assert {name: values.dtype for name, values in batch.items()} == {
        **dict.fromkeys(batch, torch.int64),
        "allowed": torch.bool,
        "weight": torch.float32,
    }
    for line, window in enumerate((3, 0)):
        places = slice(16 - real[line], 16) if pad_left else slice(0, real[line])
        ids = rows.row("input_ids", window)
        assert batch["input_ids"][line, places].tolist() == ids.tolist()
        assert (
            batch["token_type_ids"][line, places].tolist() == rows.row("type_ids", window).tolist()
        )
        assert batch["attention_mask"][line, places].all()
        assert batch["attention_mask"][line].sum() == real[line]
        assert batch["input_ids"][line].count_nonzero() == real[line]
        first, last = int(batch["context_first"][line]), int(batch["context_last"][line])
        assert batch["input_ids"][line, batch["cls"][line]] == 2
        assert batch["input_ids"][line, first - 1] == batch["input_ids"][line, last] == 3
        allowed = batch["allowed"][line].nonzero()[:, 0].tolist()
        assert allowed == [int(batch["cls"][line]), *range(first, last)]
        assert batch["start"][line] == batch["cls"][line]
    assert batch["example"].tolist() == [int(rows.column("example")[w]) for w in (3, 0)]
    assert batch["window"].tolist() == [3, 0]


def test_a_window_longer_than_its_batch_is_our_own_mistake(rows: Columns) -> None:
    with pytest.raises(AssertionError, match="longer"):
        made_task().collate(rows, np.array([0]), 5)


def outputs_for(batch: dict[str, torch.Tensor], seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    shape = batch["input_ids"].shape
    return SimpleNamespace(
        start_logits=torch.randn(shape, generator=generator),
        end_logits=torch.randn(shape, generator=generator),
    )


def test_padding_side_does_not_change_candidates(rows: Columns) -> None:
    right, left = made_task(no_answer=True), made_task(pad_left=True, no_answer=True)
    windows = np.array([1])
    tokens = int(rows.column("tokens")[1])
    one, other = right.collate(rows, windows, tokens), left.collate(rows, windows, tokens + 6)
    outputs = outputs_for(one, 3)
    moved = SimpleNamespace(
        **{
            name: torch.cat([torch.full((1, 6), 50.0), getattr(outputs, name)], dim=1)
            for name in ("start_logits", "end_logits")
        }
    )
    assert left.candidates(moved, other) == right.candidates(outputs, one)


def test_from_forward_to_scores_and_files(rows: Columns) -> None:
    task = made_task()
    torch.manual_seed(1)
    model = build_model("scratch", dropout=0.0, weights=True, scratch=SHAPE, vocabulary=40).eval()
    count = len(rows.column("tokens"))
    batch = task.collate(rows, np.arange(count), 16)
    outputs = task.forward(model, batch)
    assert outputs.start_logits.shape == (count, 16)
    assert task.loss(outputs, batch).shape == ()
    predictions = task.merge(task.candidates(outputs, batch), rows)
    scores = task.score(predictions, rows)
    assert scores["total"] == 3
    assert scores["missing"] == 0
    assert "f1" in scores
    # The blank context is answered "" and has no gold answer: that is right.
    assert scores["exact_match"] >= 100 / 3
    files = task.files(predictions)
    assert list(files) == ["predictions.json", "nbest.json"]
    assert list(files["predictions.json"]) == ["q1", "q2", "q3"]
    assert files["predictions.json"]["q3"] == ""
    for example_id, answers in files["nbest.json"].items():
        assert files["predictions.json"][example_id] == answers[0]["text"]
        assert set(answers[0]) == {"text", "probability", "start_logit", "end_logit"}
    json.dumps(files, allow_nan=False)


def test_candidates_of_several_threads_do_not_mix(rows: Columns) -> None:
    task = made_task()
    batches = [task.collate(rows, np.array([w]), 16) for w in range(4)] * 8
    outputs = [outputs_for(batch, seed) for seed, batch in enumerate(batches)]
    alone = [task.candidates(*pair) for pair in zip(outputs, batches, strict=True)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(task.candidates, outputs, batches)) == alone


def test_blocks_are_the_layers_of_the_encoder() -> None:
    model = build_model("scratch", dropout=None, weights=True, scratch=SHAPE, vocabulary=40)
    blocks = made_task().blocks(model)
    assert [type(block).__name__ for block in blocks] == ["BertLayer"] * 3
    assert blocks[0] is model.get_submodule("bert.encoder.layer.0")
    heads = nn.ModuleList([nn.Linear(1, 1) for _ in range(9)])
    with_heads = nn.Sequential(heads, nn.ModuleList([nn.Linear(30, 30), nn.Linear(30, 30)]))
    assert len(made_task().blocks(with_heads)) == 2
    assert made_task().blocks(nn.Linear(2, 2)) == []


def test_example_ids_are_named_once_and_in_order(rows: Columns) -> None:
    last = len(rows.column("example")) - 1
    assert made_task().example_ids(rows, [last, 1, 0]) == ["q2", "q1"]


def test_a_model_that_is_no_better_than_silence_is_told() -> None:
    task = made_task(no_answer=True)
    scores: dict[str, float | int] = {"f1": 40.0, "best_f1": 50.0, "total": 8, "NoAns_total": 4}
    said = {"text": "Ada", "start": 0, "end": 3, "start_logit": 1.0, "end_logit": 1.0}
    nothing = {"text": "", "start": -1, "end": -1, "start_logit": 0.0, "end_logit": 0.5}
    found = {"a": [said, nothing], "b": [said, {**nothing, "end_logit": 0.0}]}
    assert "never answers, which scores 50.00" in task.remark(found, scores)
    assert task.remark(found, {**scores, "best_f1": 50.1}) == ""
    assert task.remark(found, {"f1": 0.0, "total": 8}) == "", "every question has an answer"
    alike = {"a": [said, nothing], "b": [said, nothing]}
    assert "no threshold could be tuned" in task.remark(alike, scores)


def test_no_answer_is_scored_with_its_own_probability(rows: Columns) -> None:
    task = ExtractiveTask(
        pad_id=0,
        pad_left=False,
        uses_type_ids=True,
        answering=Answering(4, 5, no_answer=True, no_answer_threshold=2.0),
    )
    # The null score of q1 exceeds its best text by 1, that of q2 by 3, more than the threshold.
    window = rows.column("example").tolist().index(1)
    found = [
        [0, 0, 0, 0, 1.0, 1.0],
        [0, 0, -1, -1, 2.0, 1.0],
        [1, window, 1, 1, 1.0, 1.0],
        [1, window, -1, -1, 2.0, 3.0],
    ]
    predictions = task.merge(found, rows)
    files = task.files(predictions)
    names = ["predictions.json", "nbest.json", "na_prob.json", "predictions_always.json"]
    assert list(files) == names
    names = list(predictions)
    assert files["predictions.json"][names[0]] != ""
    assert files["predictions.json"][names[1]] == ""
    odds = [math.exp(1.0), math.exp(3.0)]
    expected = [odd / (1 + odd) for odd in odds]
    assert [files["na_prob.json"][name] for name in names[:2]] == pytest.approx(expected)
    assert files["na_prob.json"][names[2]] == 1.0, "nothing was found there"
    assert files["predictions_always.json"][names[1]] == "w2"
    scores = task.score(predictions, rows)
    assert (scores["NoAns_total"], scores["no_answer_threshold"]) == (1, 2.0)
    assert scores["f1"] == pytest.approx(100 / 3), "the blank context"
    assert scores["best_f1"] == pytest.approx(200 / 3)
    assert scores["best_f1_thresh"] == pytest.approx(expected[1]), "as in na_prob.json"
    tuned = made_task(no_answer=True).score(predictions, rows)
    assert (tuned["f1"], tuned["no_answer_threshold"]) == (scores["best_f1"], 3.0)
    assert tuned["HasAns_f1"] == 50.0, "both questions are answered, one of them right"
    official = score_answers(
        files["predictions_always.json"],
        {"q1": Gold(("w8",)), "q2": Gold(("w2", "w1 w2")), "q3": Gold(())},
        language="en",
        no_answer={
            name: NoAnswer(files["na_prob.json"][name], files["predictions_always.json"][name])
            for name in names
        },
    )
    for name in ("best_f1", "best_f1_thresh", "best_exact", "best_exact_thresh"):
        assert official[name] == scores[name], "what is written down can be swept again"
