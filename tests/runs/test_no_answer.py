"""Questions without an answer: the threshold is tuned once, and every user of the model uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightwork.assembly.answering import open_answerer
from lightwork.assembly.exporting import run_export
from lightwork.assembly.learned import best_of
from lightwork.settings import load_settings
from lightwork.tasks.extractive.reading import read_examples, read_questions
from lightwork.tasks.extractive.scoring.score import Gold, NoAnswer, score_answers
from tests.runs.conftest import World, questions

pytestmark = pytest.mark.processes
FILES = ("predictions.json", "nbest.json", "na_prob.json", "predictions_always.json", "scores.json")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world in which every sixth question has no answer."""
    world = World(tmp_path_factory.mktemp("doubtful"))
    for name, count, first in (("train", 60, 0), ("dev", 36, 100)):
        document = questions(count, first)
        document["version"] = "v2.0"
        for number, paragraph in enumerate(document["data"][0]["paragraphs"]):
            if number % 6 == 0:
                (qa,) = paragraph["qas"]
                qa.update(question="who swims in the river ?", answers=[], is_impossible=True)
        (world.folder / f"{name}.json").write_text(json.dumps(document))
    return world


@pytest.fixture(scope="module")
def run(world: World) -> Path:
    return world.train(2, "run", "train.epochs=8", "train.learning_rate=3e-3", "train.shares=2")


def test_training_evaluation_and_answers_share_one_threshold(world: World, run: Path) -> None:
    learned = best_of(run)
    assert learned.impossible
    assert learned.no_answer_threshold != 0, "tuned: zero would be a coincidence"
    lines = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    step = int(learned.checkpoint.name.removeprefix("step-"))
    (told,) = (line for line in lines if line["step"] == step)
    out = world.evaluate(1, run, "out")
    scores = json.loads((out / "scores.json").read_text())
    assert {**scores, "step": step} == told, "the same digits as in training"
    assert scores["f1"] == scores["best_f1"]
    predictions = json.loads((out / "predictions.json").read_text())
    asked = read_questions([world.folder / "dev.json"])
    exported = world.folder / "exported"
    run_export(run, exported, load_settings(run / "settings.yaml"))
    for folder in (run, exported):
        found = open_answerer(folder).answer_all(asked, 1)
        assert {key: answers[0].text for key, answers in found.items()} == predictions
    assert "" in predictions.values() or scores["NoAns_f1"] == 0
    assert set(predictions.values()) != {""}


def test_the_files_can_be_scored_again(world: World, run: Path) -> None:
    out = world.evaluate(1, run, "again")
    files = {name: json.loads((out / name).read_text()) for name in FILES}
    golds = {
        item.id: Gold(tuple(answer.text for answer in item.answers), item.context)
        for item in read_examples([world.folder / "dev.json"])
    }
    always, likely = files["predictions_always.json"], files["na_prob.json"]
    no_answer = {key: NoAnswer(likely[key], always[key]) for key in always}
    again = score_answers(files["predictions.json"], golds)
    again |= {
        name: value
        for name, value in score_answers(always, golds, no_answer=no_answer).items()
        if name.startswith("best_")
    }
    assert files["scores.json"] == {
        **again,
        "no_answer_threshold": best_of(run).no_answer_threshold,
    }


def test_the_same_bytes_at_any_number_of_ranks(world: World, run: Path) -> None:
    outs = [
        world.evaluate(ranks, run, f"ranks{ranks}", "evaluate.batch_tokens=96") for ranks in (1, 3)
    ]
    for name in FILES:
        assert len({(out / name).read_bytes() for out in outs}) == 1, name
