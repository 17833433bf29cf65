"""When a run starts anew and when it stops; no rank is really started here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightwork.cli.restarting import Restarts, failures_of, newest_checkpoint, spent
from lightwork.comm.supervisor import Answer, Launch
from lightwork.comm.verdict import Failure
from lightwork.errors import LaunchError
from lightwork.settings import RunRecord, write_run
from lightwork.telemetry.lines import RESTARTS
from tests.cli.conftest import Command


def killed(step: int, rank: int = 1, examples: str = "") -> Failure:
    """A rank that was killed."""
    what = f"rank {rank} was ended by SIGKILL in step {step} (forward)"
    return Failure(0, rank, what, step, examples, repeats=False, code=137, seen_s=0.0)


def answers(run: Path, most: int, failures: Sequence[Failure]) -> list[Answer]:
    """What one start of the command says to these failures, one after the other."""
    restarts = Restarts(run, most)
    with restarts.counting():
        return [restarts.again(failure) for failure in failures]


def events(run: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (run / RESTARTS).read_text().splitlines()]


def saved(run: Path, step: int) -> None:
    folder = run / f"checkpoints/step-{step:06d}"
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()


class KilledError(BaseException):
    """Stands for the end of the launcher, after which it does nothing more."""


def launcher_killed(run: Path, most: int, failures: Sequence[Failure] = ()) -> list[Answer]:
    """A start whose launcher is killed after these failures."""
    found = answers(run, most, failures)
    lines = (run / RESTARTS).read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["event"] == "end"
    (run / RESTARTS).write_text("".join(lines[:-1]))
    return found


def test_a_restart_is_one_line(tmp_path: Path) -> None:
    saved(tmp_path, 20)
    saved(tmp_path, 30)
    (tmp_path / "checkpoints/step-000040").mkdir()  # nobody wrote it to its end
    first, second = answers(tmp_path, 10, [killed(37), killed(38)])
    assert first == Answer(
        True,
        "rank 1 was ended by SIGKILL in step 37 (forward); attempt 2 of at most 11 goes on from "
        "step-000030",
    )
    assert second.goes_on
    assert "; attempt 3 of at most 11 " in second.words
    assert events(tmp_path) == ["start", "failure", "failure", "end"]


def test_the_newest_checkpoint_has_the_greatest_number(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    saved(tmp_path, 999_999)
    saved(tmp_path, 1_000_000)
    assert newest_checkpoint(tmp_path) == "step-1000000"


def test_the_count_is_used_up(tmp_path: Path) -> None:
    *_, last = answers(tmp_path, 2, [killed(5), killed(6), killed(7)])
    assert not last.goes_on
    assert "this was attempt 3, and launch.restarts allows no more" in last.words
    assert str(tmp_path / RESTARTS) in last.words
    assert "the same command begins again and counts anew" in last.words
    (again,) = answers(tmp_path, 2, [killed(8)])
    assert again.goes_on, "a person may try again"


def test_the_same_step_stops_with_rank_and_examples(tmp_path: Path) -> None:
    *going_on, last = answers(
        tmp_path, 10, [killed(37, 1, "q3, q7"), killed(37, 0, "q1"), killed(37, 1, "q3, q7")]
    )
    assert all(answer.goes_on for answer in going_on)
    assert not last.goes_on
    assert last.words.startswith(
        "step 37 has failed 3 times (rank 1 was ended by SIGKILL in step 37 (forward); rank 0 was "
        "ended by SIGKILL in step 37 (forward)); the examples at work were q3, q7."
    )
    assert str(tmp_path / "logs") in last.words


def test_a_step_that_failed_too_often_gets_one_attempt_until_it_is_passed(tmp_path: Path) -> None:
    answers(tmp_path, 10, [killed(37)] * 3)
    for _ in range(2):  # whoever starts it over and over ends after one attempt
        (once,) = answers(tmp_path, 10, [killed(37)])
        assert not once.goes_on
    assert answers(tmp_path, 10, [killed(38)])[0].goes_on
    assert answers(tmp_path, 10, [killed(37)])[0].goes_on


def test_starting_up_counts_like_a_step(tmp_path: Path) -> None:
    first, second, third = answers(tmp_path, 10, [killed(0)] * 3)
    assert (first.goes_on, second.goes_on, third.goes_on) == (True, True, False)
    assert third.words.startswith("what comes before the first step has failed 3 times")
    assert answers(tmp_path, 10, [killed(0)])[0].goes_on is False
    assert answers(tmp_path, 10, [killed(1), killed(0)])[1].goes_on


def test_earlier_steps_in_between_do_not_excuse_a_step(tmp_path: Path) -> None:
    assert not answers(tmp_path, 10, [killed(n) for n in (37, 33, 37, 34, 37)])[-1].goes_on


def test_a_killed_launcher_does_not_begin_the_count_anew(tmp_path: Path) -> None:
    launcher_killed(tmp_path, 4, [killed(5), killed(6)])
    third, fourth = answers(tmp_path, 4, [killed(7), killed(8)])
    assert "; attempt 5 of at most 5 " in third.words  # two deaths, the launcher's, and this one
    assert not fourth.goes_on


def test_launchers_killed_over_and_over_end(tmp_path: Path) -> None:
    for _ in range(3):
        launcher_killed(tmp_path, 2)
    with pytest.raises(LaunchError, match="and has written no checkpoint meanwhile"):
        answers(tmp_path, 2, [])
    assert answers(tmp_path, 2, [killed(5)])[0].goes_on, "then a person may try again"


def test_a_new_checkpoint_excuses_killed_launchers(tmp_path: Path) -> None:
    for step in range(5):
        launcher_killed(tmp_path, 2)
        launcher_killed(tmp_path, 2)
        saved(tmp_path, step)
    answers(tmp_path, 2, [])


def test_without_restarts_the_way_to_go_on_is_told(tmp_path: Path) -> None:
    saved(tmp_path, 4)
    words = "launch.restarts is 0; the same command goes on from step-000004"
    assert answers(tmp_path, 0, [killed(5)]) == [Answer(False, words)]
    assert events(tmp_path) == ["start", "failure", "end"]
    launcher_killed(tmp_path, 0)
    launcher_killed(tmp_path, 0)
    assert answers(tmp_path, 0, [killed(5)]) == [Answer(False, words)], "nothing is used up"


def test_a_newer_snapshot_is_what_it_goes_on_from_and_is_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightwork.cli.restarting.own_memory", lambda: tmp_path / "shm")
    run = tmp_path / "run"
    run.mkdir()
    write_run(run, RunRecord({}, run_id="abc"))
    saved(run, 30)
    saved(tmp_path / "shm/abc", 35)
    assert newest_checkpoint(run) == "step-000035 in memory"
    saved(run, 40)
    assert newest_checkpoint(run) == "step-000040"
    for step in range(50, 54):
        launcher_killed(run, 1)
        saved(tmp_path / "shm/abc", step)
    answers(run, 1, [])


def test_half_a_line_and_strange_ones_are_passed_over(tmp_path: Path) -> None:
    launcher_killed(tmp_path, 5, [killed(5)])
    with (tmp_path / RESTARTS).open("a") as file:
        file.write('{"event": "fail')
    assert "; attempt 4 of at most 6" in answers(tmp_path, 5, [killed(6)])[0].words


def test_long_reasons_are_cut(tmp_path: Path) -> None:
    long = Failure(0, 0, "rank 0: " + "word\n" * 500, 5, "", repeats=False, code=1, seen_s=0.0)
    (answer,) = answers(tmp_path, 5, [long])
    assert len(answer.words.splitlines()) == 1
    assert len(answer.words) < 400


def test_what_a_rank_has_shown_is_not_said_again(tmp_path: Path) -> None:
    told = replace(killed(5), what="rank 1: error: step 5 failed. rank 1: a bug", shown=True)
    (answer,) = answers(tmp_path, 5, [told])
    assert answer.words == "rank 1 failed; attempt 2 of at most 6 begins again"
    assert "a bug" in (tmp_path / RESTARTS).read_text()


def test_counting_by_itself() -> None:
    start, failure, end = (
        {"event": "start", "newest": None},
        {"event": "failure", "step": 3},
        {"event": "end"},
    )
    cases: list[tuple[list[dict[str, Any]], int]] = [
        ([], 0),
        ([start, end], 0),
        ([start], 1),
        ([start, failure], 2),
        ([start, failure, end], 0),
        ([start, failure, start], 3),
        ([start, failure, end, start], 1),
    ]
    for lines, count in cases:
        assert spent(lines, None) == count
        assert spent(lines, "step-000001") == 0
    assert failures_of(3, [start, failure, end]) == [failure]


@pytest.mark.usefixtures("folder")
def test_train_asks_the_count_and_watches(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Launch] = []

    def supervise(launch: Launch) -> int:
        asked.append(launch)
        assert launch.again is not None
        answer = launch.again(killed(3))
        return 0 if answer.goes_on else 137

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    assert command("train", "s.yaml", "--run", "run", "launch.hang_timeout_s=7").code == 0
    assert asked[0].hang_timeout_s == 7.0
    assert events(Path("run")) == ["start", "failure", "end"]
    assert command("train", "s.yaml", "--run", "none", "launch.restarts=0").code == 137
    assert events(Path("none")) == ["start", "failure", "end"]


@pytest.mark.usefixtures("folder")
def test_nothing_else_is_started_anew(
    command: Command, launches: list[Launch], assembly: Any
) -> None:
    command("train", "s.yaml", "--dry-run")
    command("verify", "s.yaml")
    assert len(launches) == 2
    assert {(launch.again, launch.hang_timeout_s) for launch in launches} == {(None, None)}
