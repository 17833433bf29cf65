"""A run that is asked to leave: all ranks at the same step, saved, and nothing is lost by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightwork.settings import load_settings, open_run
from tests.ranks import run_as_processes
from tests.runs.conftest import World, weights_digest

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted_ends.py")
TREE = ("sync.strategy=tree", "train.shares=4", "model.dropout=0.1")


def asked_to_leave(world: World, what: str, name: str, *overrides: str) -> list[int]:
    """The exit codes of two ranks."""
    arguments = (str(world.settings), str(world.folder / name), *overrides)
    return run_as_processes(2, f"{PLANTED}:{what}", *arguments, timeout_s=120, join=False)


def steps(run: Path, rank: int = 0) -> list[int]:
    lines = (run / f"metrics/rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def saved(run: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in run.glob("checkpoints/step-*"))


def scored(run: Path) -> list[int]:
    return [
        json.loads(line)["step"] for line in (run / "evaluations.jsonl").read_text().splitlines()
    ]


def test_a_signal_to_one_rank_stops_all_and_going_on_changes_no_bit(world: World) -> None:
    whole = world.train(1, "never-stopped", *TREE)
    assert asked_to_leave(world, "a_signal_in_step_3", "stopped", *TREE) == [143, 143]
    run = world.folder / "stopped"
    assert steps(run) == steps(run, 1) == [1, 2, 3]
    assert saved(run) == [3]
    world.train(3, "stopped", *TREE)
    assert steps(run) == steps(whole)
    assert weights_digest(run) == weights_digest(whole)


def test_an_evaluation_is_left_at_once_and_made_up_for(world: World) -> None:
    options = ["train.evaluate_every_steps=2", "train.max_steps=3"]
    codes = asked_to_leave(world, "a_signal_in_an_evaluation", "unscored", *options)
    assert codes == [130, 130]
    run = world.folder / "unscored"
    assert (steps(run), saved(run)) == ([1, 2], [2])
    assert not (run / "evaluations.jsonl").exists()
    world.train(2, "unscored", *options)
    assert (steps(run), scored(run)) == ([1, 2, 3], [2, 3])


def test_while_data_is_prepared_there_is_nothing_to_save(world: World) -> None:
    assert asked_to_leave(world, "a_signal_while_data_is_prepared", "unprepared") == [138, 138]
    assert saved(world.folder / "unprepared") == []


def test_when_the_time_is_up_the_run_is_saved_and_ends_well(world: World) -> None:
    run = world.train(2, "timed", "train.max_steps=3", "train.max_minutes=1e-6")
    assert (steps(run), saved(run)) == ([1], [1])
    said = (run / "logs/rank0.log").read_text()
    assert "time is up (train.max_minutes) after 1 of 3 steps; they are saved" in said
    assert "finished" not in said
    world.train(2, "timed", "train.max_steps=3")
    assert (steps(run), scored(run)) == ([1, 2, 3], [3])


def test_a_finished_run_can_be_made_longer(world: World) -> None:
    run = world.train(2, "short", "train.epochs=1")
    epoch = len(steps(run))
    longer = load_settings(world.settings, ["train.epochs=2"])
    open_run(run, longer, extend=True)
    world.train(1, "short", "train.epochs=2")
    assert steps(run) == list(range(1, 2 * epoch + 1))
    (entry,) = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    assert entry == {"step": epoch + 1, "changed": "train.epochs", "from": 1, "to": 2}
