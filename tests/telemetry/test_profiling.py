"""A trace is there whole or not at all, and one line says which."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from lightwork.telemetry.profiling import Profile
from lightwork.telemetry.timing import StepClock

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="lightwork")
    return caplog


def profiled(profile: Profile, steps: Iterable[int]) -> list[int]:
    """Do the steps as a training does; returns those in which the profiler looked."""
    looked = []
    profile.turn(next(iter(steps)))
    for step in steps:
        clock = StepClock(CPU, profile.runs)
        with clock.part("forward"):
            torch.ones(3) + 1
        if profile.runs:
            looked.append(step)
        profile.turn(step + 1)
    profile.end()
    assert not profile.runs
    return looked


def ranges(path: Path) -> list[str]:
    """What the trace calls ours, in the order of time."""
    with gzip.open(path) as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    assert any(event["name"] == "aten::add" for event in events)
    ours = [event for event in events if event.get("cat") == "user_annotation"]
    return [event["name"] for event in sorted(ours, key=lambda event: event["ts"])]


def test_only_the_steps_that_are_wanted(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    profile = Profile(range(3, 5), tmp_path / "profile", 1, range(1, 10))
    assert profiled(profile, range(1, 10)) == [3, 4]
    assert [path.name for path in (tmp_path / "profile").iterdir()] == ["rank1.json.gz"]
    trace = tmp_path / "profile/rank1.json.gz"
    assert ranges(trace) == ["step 3", "forward", "step 4", "forward"]
    (line,) = said.messages
    assert line.startswith(f"steps 3 to 4 were profiled: {trace} and one of each other rank; open")
    assert "https://ui.perfetto.dev" in line


@pytest.mark.parametrize(
    ("wanted", "ahead", "done", "looked"),
    [
        (range(3, 7), range(1, 5), range(1, 5), [3, 4]),  # the run ends before
        (range(3, 7), range(1, 9), range(1, 5), [3, 4]),  # somebody ends it before
        (range(3, 7), range(5, 9), range(5, 9), [5, 6]),  # some were done before a restart
        (range(4, 5), range(1, 5), range(1, 5), [4]),  # the last step of all
    ],
)
def test_of_the_steps_those_that_are_done(
    tmp_path: Path,
    said: pytest.LogCaptureFixture,
    wanted: range,
    ahead: range,
    done: range,
    looked: list[int],
) -> None:
    assert [
        step for step in profiled(Profile(wanted, tmp_path, 0, ahead), done) if step in done
    ] == looked
    names = [name for name in ranges(tmp_path / "rank0.json.gz") if name != "forward"]
    assert names[: len(looked)] == [f"step {step}" for step in looked]
    named = f"steps {looked[0]} to {looked[-1]} were" if len(looked) > 1 else "step 4 was"
    (line,) = said.messages
    assert line.startswith(f"{named} profiled: ")


@pytest.mark.parametrize(
    ("wanted", "ahead", "done", "words"),
    [
        (range(20, 26), range(1, 5), range(1, 5),
         "steps 20 to 25 are not profiled (telemetry.profile_steps): this start does steps 1 to 4"),
        (range(2, 3), range(5, 9), range(5, 9),
         "step 2 is not profiled (telemetry.profile_steps): this start does steps 5 to 8"),
        (range(4, 6), range(1, 9), range(1, 3),
         "steps 4 to 5 were not profiled (telemetry.profile_steps): training ended before"),
        (range(3, 6), range(1, 9), range(1, 3),
         "steps 3 to 5 were not profiled (telemetry.profile_steps): training ended before"),
    ],
    ids=["beyond the end", "before a restart", "stopped", "stopped just before"],
)  # fmt: skip
def test_steps_that_do_not_come_leave_a_line_and_no_file(
    tmp_path: Path,
    said: pytest.LogCaptureFixture,
    wanted: range,
    ahead: range,
    done: range,
    words: str,
) -> None:
    (tmp_path / "rank0.json.gz").write_text("of an earlier start")
    assert profiled(Profile(wanted, tmp_path, 0, ahead), done) == []
    assert said.messages == [words]
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.json.gz"]
    assert (tmp_path / "rank0.json.gz").read_text() == "of an earlier start"


@pytest.mark.parametrize("ahead", [range(1, 5), range(5, 5)])
def test_nothing_is_said_where_nothing_is_wanted_or_done(
    tmp_path: Path, said: pytest.LogCaptureFixture, ahead: range
) -> None:
    wanted = range(0) if ahead else range(2, 4)
    profile = Profile(wanted, tmp_path, 0, ahead)
    if ahead:
        assert profiled(profile, ahead) == []
    assert not said.messages
    assert not list(tmp_path.iterdir())


def test_a_trace_that_cannot_be_written_stops_nothing(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "profile").write_text("a file where a folder belongs")
    profile = Profile(range(1, 2), tmp_path / "profile", 0, range(1, 4))
    assert profiled(profile, range(1, 4)) == [1]
    (line,) = said.messages
    assert "rank0.json.gz cannot be written, and training goes on: " in line


def test_a_profiler_that_cannot_begin_stops_nothing(
    tmp_path: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("not permitted")

    monkeypatch.setattr(torch.profiler.profile, "start", refuse)
    profile = Profile(range(2, 4), tmp_path, 0, range(1, 5))
    assert profiled(profile, range(1, 5)) == []
    assert said.messages == ["nothing is profiled, and training goes on: not permitted"]
    assert not list(tmp_path.iterdir())


def test_ranges_cost_nothing_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise AssertionError("a range was opened")

    monkeypatch.setattr(torch.profiler, "record_function", refuse)
    with StepClock(CPU).part("forward"):
        pass
    with pytest.raises(AssertionError), StepClock(CPU, profiled=True).part("forward"):
        pass
