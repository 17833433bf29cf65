"""``lightwork list``: the command around the reading of runs."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.report.made import finished_run, made_run

Command = Callable[..., Any]


def test_the_best_run_comes_first(folder: Path, command: Command) -> None:
    finished_run(folder / "runs/a", 70.0)
    finished_run(folder / "runs/b", 80.0, "train.seed=7")
    ended = command("list")
    assert (ended.code, ended.err) == (0, "")
    title, first, second = ended.out.splitlines()
    assert "train.seed" in title.split()
    assert "train.epochs" not in title
    assert first.split()[:4] == ["b", "finished", "120/120", "80.00"]
    assert second.split()[:4] == ["a", "finished", "120/120", "70.00"]
    ended = command("list", "--sort", "name")
    assert [line.split()[0] for line in ended.out.splitlines()[1:]] == ["a", "b"]


def test_a_run_in_training(folder: Path, command: Command) -> None:
    run = finished_run(folder / "runs/a", 70.0)
    with (run / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "running" in command("list").out


def test_json(folder: Path, command: Command) -> None:
    finished_run(folder / "runs/a", 70.0)
    finished_run(folder / "runs/b", 80.0)
    made_run(folder / "runs/c")
    (folder / "runs/c/run.json").write_text("{")
    ended = command("list", "--json")
    assert ended.code == 0
    b, a, c = json.loads(ended.out)
    assert (b["name"], b["folder"], b["state"], b["ranks"]) == ("b", "runs/b", "finished", 2)
    assert b["best"] == {
        "step": 80, "metric": "f1", "scores": {"exact_match": 70.0, "f1": 80.0, "total": 17},
    }  # fmt: skip
    assert (b["step"], b["planned_steps"], b["problem"]) == (120, 120, None)
    assert b["identity"]["train.epochs"] == 3
    assert a["batch_windows_per_s"] == 100.0
    assert "run.json" in c["problem"]


def test_one_run(folder: Path, command: Command) -> None:
    run = finished_run(folder / "elsewhere/mine", 70.0)
    assert command("list", str(run)).out.splitlines()[1].split()[0] == "mine"


def test_where_there_are_no_runs(folder: Path, command: Command) -> None:
    ended = command("list")
    assert (ended.code, ended.out) == (2, "")
    assert "does not exist" in ended.err
    assert "Traceback" not in ended.err
    (folder / "runs").mkdir()
    ended = command("list")
    assert ended.code == 2
    assert "lightwork train" in ended.err


def test_a_damaged_run_is_no_traceback(folder: Path, command: Command) -> None:
    finished_run(folder / "runs/a", 70.0)
    made_run(folder / "runs/b")
    (folder / "runs/b/run.json").write_bytes(b"\xff")
    ended = command("list")
    assert ended.code == 0
    assert "not listed: b: " in ended.out
    ended = command("list", "runs/b")
    assert ended.code == 2
    assert "is damaged" in ended.err
