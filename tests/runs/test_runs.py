"""Whole runs at several numbers of ranks: the number of cards does not change what is learned."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs.conftest import World

pytestmark = pytest.mark.processes
Losses = Callable[[Path], list[float]]
SEVEN = ("train.epochs=7", "train.evaluate_every_steps=25")


@pytest.fixture(scope="module")
def alone(world: World) -> Path:
    """One rank that hosts three shares, without dropout."""
    return world.train(1, "alone", "train.shares=3", *SEVEN)


@pytest.mark.parametrize("ranks", [2, 3])
def test_losses_and_scores_are_those_of_one_rank(
    world: World, alone: Path, ranks: int, losses: Losses
) -> None:
    run = world.train(ranks, f"ranks{ranks}", "train.shares=3", *SEVEN)
    assert len(losses(alone)) > 50
    assert losses(run) == pytest.approx(losses(alone), rel=1e-5)
    ours, theirs = (
        [json.loads(line) for line in (r / "evaluations.jsonl").read_text().splitlines()]
        for r in (run, alone)
    )
    assert [e["step"] for e in ours] == [e["step"] for e in theirs]
    assert [e["exact_match"] for e in ours] == [e["exact_match"] for e in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["f1"] == pytest.approx(other["f1"], abs=0.1)


def test_dropout_belongs_to_shares_not_to_ranks(world: World, losses: Losses) -> None:
    with_dropout = ("train.shares=3", "model.dropout=0.3")
    one = world.train(1, "drop1", *with_dropout)
    three = world.train(3, "drop3", *with_dropout)
    other_seed = world.train(1, "drop-other", *with_dropout, "train.seed=43")
    assert losses(three) == pytest.approx(losses(one), rel=1e-4)
    assert losses(other_seed) != pytest.approx(losses(one), rel=1e-2)


def test_the_rate_follows_the_batch_and_never_the_ranks(world: World) -> None:
    rule = ("train.lr_rule=sqrt", "train.reference_batch_size=2", "train.max_steps=3")
    rates = []
    for ranks, name, overrides in ((1, "rule1", rule), (2, "rule2", rule), (2, "plain", rule[2:])):
        run = world.train(ranks, name, *overrides)
        lines = (run / "metrics" / "rank0.jsonl").read_text().splitlines()
        rates.append([json.loads(line)["learning_rate"] for line in lines])
    assert rates[0] == rates[1]
    assert rates[0] == pytest.approx([2 * rate for rate in rates[2]]), "the batch is 4 x 2"
    told = "learning rate 0.002 instead of 0.001: the batch has 8 windows, not 2"
    assert told in (world.folder / "rule2" / "logs" / "rank0.log").read_text()


def test_ddp_agrees_with_all_reduce(world: World, alone: Path, losses: Losses) -> None:
    run = world.train(2, "ddp", "train.shares=3", "sync.strategy=ddp", *SEVEN)
    assert losses(run) == pytest.approx(losses(alone), rel=1e-6)


def test_evaluation_gives_the_same_digits_for_any_number_of_ranks(
    world: World, alone: Path
) -> None:
    answers = [
        world.evaluate(ranks, alone, f"answers{ranks}", "evaluate.batch_tokens=96")
        for ranks in (1, 2, 3)
    ]
    for name in ("scores.json", "predictions.json", "nbest.json"):
        texts = {(folder / name).read_text() for folder in answers}
        assert len(texts) == 1, name
    predictions = json.loads((answers[0] / "predictions.json").read_text())
    assert list(predictions) == [f"q{number}" for number in range(100, 117)], "in input order"
    scores = json.loads((answers[0] / "scores.json").read_text())
    assert scores["total"] == 17
    nbest = json.loads((answers[0] / "nbest.json").read_text())
    assert nbest["q100"][0]["text"] == predictions["q100"]
    assert sum(entry["probability"] for entry in nbest["q100"]) == pytest.approx(1)


def test_more_ranks_than_batches_of_windows(world: World, alone: Path) -> None:
    few = world.folder / "few.json"
    whole = json.loads((world.folder / "dev.json").read_text())
    whole["data"][0]["paragraphs"] = whole["data"][0]["paragraphs"][:1]
    few.write_text(json.dumps(whole))
    out = world.folder / "few-answers"
    arguments = (str(world.settings), str(alone), str(few), str(out))
    world._start(3, "evaluate", *arguments)
    assert json.loads((out / "scores.json").read_text())["total"] == 1


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 2)])
def test_a_resumed_run_goes_on_with_the_next_batch_at_any_number_of_ranks(
    world: World, alone: Path, losses: Losses, first: int, second: int
) -> None:
    name = f"resumed{first}{second}"
    every = ("train.shares=3", "checkpoint.every_steps=5", "checkpoint.keep=19", *SEVEN)
    run = world.train(first, name, *every)
    for folder in (run / "checkpoints").iterdir():
        if folder.name > "step-000005":  # as if it had been killed in step 6
            shutil.rmtree(folder)
    world.train(second, name, *every)
    steps = [json.loads(line) for line in (run / "metrics/rank0.jsonl").read_text().splitlines()]
    last = {record["step"]: record for record in steps}
    assert [r["step"] for r in steps if r["attempt"] == 2] == list(range(6, len(last) + 1))
    assert [last[step]["loss"] for step in sorted(last)] == pytest.approx(losses(alone), rel=1e-5)
    rates = [last[step]["learning_rate"] for step in sorted(last)]
    whole = (alone / "metrics/rank0.jsonl").read_text().splitlines()
    assert rates == [json.loads(line)["learning_rate"] for line in whole]
