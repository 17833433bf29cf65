"""What a folder tells of its run, in every state that a training or a kill can leave it in."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lightwork.errors import RunError
from lightwork.report.runs import in_order, is_held, read_facts, read_runs, train_files
from lightwork.settings import read_run, write_run
from tests.report.made import (
    finished_run,
    made_run,
    record,
    write_checkpoint,
    write_records,
    write_scores,
)


def test_a_finished_run(tmp_path: Path) -> None:
    facts = read_facts(finished_run(tmp_path / "a", 80.0))
    assert (facts.name, facts.state) == ("a", "finished")
    assert (facts.step, facts.planned_steps, facts.ranks) == (120, 120, 2)
    assert facts.best is not None
    assert (facts.best.step, facts.best.metric, facts.best.score) == (80, "f1", 80.0)
    assert facts.best.scores == {"exact_match": 70.0, "f1": 80.0, "total": 17}
    assert facts.batch_windows_per_s == 100.0
    assert facts.identity["train.epochs"] == 3
    assert json.loads(json.dumps(facts.as_json()))["best"]["step"] == 80


def test_an_automatic_precision_is_told_as_it_was_chosen(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    assert read_facts(run).identity["train.precision"] == "auto"
    write_run(run, replace(read_run(run), precision="bf16"))
    assert read_facts(run).identity["train.precision"] == "bf16"


def test_a_run_that_has_only_been_opened(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    write_run(run, replace(read_run(run), total_steps=None))
    facts = read_facts(run)
    assert (facts.state, facts.step, facts.planned_steps) == ("stopped early", 0, None)
    assert (facts.best, facts.batch_windows_per_s, facts.ranks) == (None, None, 0)


def test_a_run_stopped_after_its_last_step_is_not_finished(tmp_path: Path) -> None:
    """Without the last checkpoint the last steps will be repeated."""
    run = made_run(tmp_path / "a")
    write_records(run, 0, [record(step) for step in range(1, 121)])
    write_checkpoint(run, 80)
    facts = read_facts(run)
    assert (facts.state, facts.step, facts.planned_steps) == ("stopped early", 120, 120)
    write_checkpoint(run, 120)
    assert read_facts(run).state == "finished"


def test_a_checkpoint_without_its_manifest_is_none(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "a", 80.0)
    (run / "checkpoints/step-000120/manifest.json").unlink()
    assert read_facts(run).state == "stopped early"


def test_patience_ends_a_run(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", "train.patience=2")
    write_records(run, 0, [record(step) for step in range(1, 101)])
    write_checkpoint(run, 100)
    write_scores(run, {20: 50.0, 40: 60.0, 80: 60.0})
    assert read_facts(run).state == "stopped early"
    write_scores(run, {100: 59.0})
    facts = read_facts(run)
    assert (facts.state, facts.step, facts.planned_steps) == ("finished", 100, 120)


def test_only_the_newest_start_counts(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    for rank in range(4):
        write_records(run, rank, [record(step, 1, 400.0) for step in range(1, 90)])
    for rank in range(2):
        write_records(run, rank, [record(step, 2, 200.0) for step in (81, 82, 83)])
    facts = read_facts(run)
    assert (facts.step, facts.ranks, facts.batch_windows_per_s) == (83, 2, 200.0)


def test_speed_is_that_of_the_recent_steps_and_a_slow_one_does_not_count(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    rates = [1000.0] * 500 + [200.0] * 99 + [1.0]
    write_records(run, 0, [record(step, 1, rate) for step, rate in enumerate(rates, 1)])
    assert read_facts(run).batch_windows_per_s == 200.0


def test_half_lines_are_passed_over(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    write_records(run, 0, [record(7)], end='{"step": 8, "ep')
    write_scores(run, {5: 50.0}, end='{"step": 6, "exact_m')
    facts = read_facts(run)
    assert facts.step == 7
    assert facts.best is not None
    assert facts.best.step == 5


def test_odd_lines_are_passed_over(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    write_records(run, 0, [record(7), {"step": "8"}, {**record(9), "epoch": -1}], end="[]\n1\n\n")
    (run / "evaluations.jsonl").write_text('{"step": 3, "f1": "high"}\n{"step": 4, "f1": NaN}\n')
    facts = read_facts(run)
    assert (facts.step, facts.planned_steps, facts.best) == (7, 120, None)


def test_records_of_any_size(tmp_path: Path) -> None:
    """A hole of 8 GB before the last steps: what is read does not grow with the file."""
    run = made_run(tmp_path / "a")
    write_records(run, 0, [])
    path = run / "metrics" / "rank0.jsonl"
    os.truncate(path, 8 << 30)
    write_records(run, 0, [{}, record(80), record(81)])
    facts = read_facts(run)
    assert (facts.step, facts.planned_steps) == (81, 120)


def test_best_is_what_the_run_points_to(tmp_path: Path) -> None:
    """It is what is evaluated and exported, though an ended timeline had a better one."""
    run = made_run(tmp_path / "a")
    write_scores(run, {40: 60.0, 80: 90.0})
    best = read_facts(run).best
    assert best is not None
    assert best.step == 80
    (run / "best").symlink_to("checkpoints/step-000040")
    best = read_facts(run).best
    assert best is not None
    assert best.step == 40


def test_a_score_of_another_name(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    (run / "evaluations.jsonl").write_text('{"step": 1, "accuracy": 25.0, "total": 4}\n')
    best = read_facts(run).best
    assert best is not None
    assert (best.metric, best.score) == ("accuracy", 25.0)


def test_a_held_run_is_running_and_asking_does_not_hold_it(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "a", 80.0)
    with (run / ".lock").open("a") as file:
        assert not is_held(run)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_held(run)
        assert read_facts(run).state == "running"
        fcntl.flock(file, fcntl.LOCK_UN)
        assert not is_held(run)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_run_without_a_lock_file_gets_none(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    assert not is_held(run)
    assert not (run / ".lock").exists()


def test_a_folder_of_runs_with_other_things_in_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("b", "a"):
        made_run(runs / name)
    (runs / "data").rename(tmp_path / "elsewhere")
    (runs / "notes").mkdir()
    (runs / "file").touch()
    found, problems = read_runs(runs)
    assert [run.name for run in found] == ["a", "b"]
    assert problems == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 9}', '{"format": 1, "identity": [], "run_id": "x"}', "\0"]
)
def test_a_damaged_run_is_a_problem_and_the_others_are_read(tmp_path: Path, text: str) -> None:
    runs = tmp_path / "runs"
    made_run(runs / "whole")
    made_run(runs / "torn")
    (runs / "torn/run.json").write_text(text)
    found, (problem,) = read_runs(runs)
    assert [run.name for run in found] == ["whole"]
    assert problem.name == "torn"
    assert "run.json" in problem.reason
    with pytest.raises(RunError, match=r"run\.json"):
        read_runs(runs / "torn")


def test_one_run_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made_run(tmp_path / "mine")
    monkeypatch.chdir(run)
    for given in (run, Path()):
        (facts,), problems = read_runs(given)
        assert (facts.name, problems) == ("mine", [])


def test_where_there_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, says in (("", "holds no runs yet"), ("nope", "does not exist"), ("file", "a file")):
        with pytest.raises(RunError, match=says):
            read_runs(tmp_path / name)


def test_orders(tmp_path: Path) -> None:
    made = {"c": 70.0, "a": 60.0, "b": 80.0}
    runs = [read_facts(finished_run(tmp_path / name, score)) for name, score in made.items()]
    runs.append(read_facts(made_run(tmp_path / "new")))
    runs.append(read_facts(finished_run(tmp_path / "d", 70.0)))
    assert [run.name for run in in_order(runs, "score")] == ["b", "c", "d", "a", "new"]
    assert [run.name for run in in_order(runs, "name")] == ["a", "b", "c", "d", "new"]
    for name, age in (("a", 5), ("b", 1), ("c", 3), ("d", 2), ("new", 4)):
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, (0, 1e9 - age), follow_symlinks=False)
    timed = [read_facts(tmp_path / run.name) for run in runs]
    assert [run.name for run in in_order(timed, "time")] == ["b", "d", "c", "new", "a"]


def test_names_of_training_files(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", file="squad train.json")
    assert train_files(run) == ["squad train.json"]
    (run / "settings.yaml").write_text("data: {train: [/x/a.json, /y/b.json]}\n")
    assert train_files(run) == ["a.json", "b.json"]
    for text in ("", "data: 3\n", "[", "data: {train: {a: b}}\n"):
        (run / "settings.yaml").write_text(text)
        assert train_files(run) == []
    (run / "settings.yaml").unlink()
    assert train_files(run) == []


def test_the_room_is_torch_free() -> None:
    script = (
        "import sys, lightwork.report.listing, lightwork.report.card\n"
        "print({'torch', 'transformers', 'numpy', 'tokenizers'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
