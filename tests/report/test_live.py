"""The verdict while a run trains: said once when it has changed and stays so."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lightwork.report import live
from lightwork.report.live import COST_S, EVERY_S, Live, pause, watching
from tests.report.stepped import write_steps

CALM: dict[str, Any] = {}
LATE = {"data": 0.2}
SLOW_LINK = {"transfer": 0.3}


@pytest.fixture(autouse=True)
def _said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lightwork")


class Run:
    """A run that goes on, and who looks at it."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.folder = folder
        self._caplog = caplog
        self._steps = 0
        self.live = Live(folder, attempt=1)

    def goes_on(self, own: dict[str, Any], steps: int = 60) -> list[str]:
        """What is said after so many more steps."""
        write_steps(self.folder, [own] * 2, count=steps, first=self._steps + 1)
        self._steps += steps
        return self.look()

    def look(self) -> list[str]:
        self._caplog.clear()
        self.live.look()
        return [record.getMessage().partition(";")[0] for record in self._caplog.records]


@pytest.fixture
def run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Run:
    return Run(tmp_path, caplog)


def test_a_run_that_nothing_holds_up_is_not_talked_about(run: Run) -> None:
    assert run.look() == [], "there is nothing yet"
    assert [run.goes_on(CALM) for _ in range(5)] == [[]] * 5


def test_a_change_is_said_once_when_it_stays_and_so_is_its_end(run: Run) -> None:
    run.goes_on(CALM)
    assert run.goes_on(LATE) == []
    (said,) = run.goes_on(LATE)
    assert said.startswith("step 180: data-bound: ranks wait for data")
    assert run.goes_on(LATE) == []
    assert run.goes_on(CALM) == []
    assert run.goes_on(CALM) == ["step 360: nothing holds the run up any more"]


def test_what_comes_and_goes_is_not_said(run: Run) -> None:
    for _ in range(4):
        assert run.goes_on(LATE) == []
        assert run.goes_on(SLOW_LINK) == []


def test_an_evaluation_now_and_then_is_not_what_holds_a_run_up(run: Run) -> None:
    evaluated = {"duties_s": lambda step: 60.0 if step % 120 == 100 else 0.0}
    assert [run.goes_on(evaluated, steps=30) for _ in range(8)] == [[]] * 8


def test_without_new_steps_nothing_has_held(run: Run) -> None:
    run.goes_on(LATE)
    assert run.look() == []


def test_warnings_are_said_at_once_and_once(run: Run) -> None:
    def norm(step: int) -> float:
        return 90.0 if step in (115, 180) else 1.0 + step % 3 / 10

    assert run.goes_on({"grad_norm": norm}) == []
    (said,) = run.goes_on({"grad_norm": norm})
    assert said.startswith("step 120: a gradient out of line: the gradient norm jumps at step 115")
    (other,) = run.goes_on({"grad_norm": norm})
    assert "jumps at step 180" in other
    assert run.goes_on({"grad_norm": norm}) == []


def test_a_warning_that_stays_is_not_repeated(run: Run) -> None:
    bad = {"rank_loss": 9.0}
    write_steps(run.folder, [CALM, bad], count=120)
    (said,) = run.look()
    assert said.startswith("step 120: a loss out of line: the loss of rank 1")
    write_steps(run.folder, [CALM, bad], count=60, first=121)
    assert run.look() == []


def test_steps_of_an_earlier_start_are_not_this_one(run: Run) -> None:
    run.live = Live(run.folder, attempt=2)
    assert [run.goes_on(LATE) for _ in range(3)] == [[]] * 3


def test_a_look_costs_a_step_little_however_long_it_takes() -> None:
    assert pause(0.0, 100, EVERY_S) == EVERY_S
    # 20 ms for 10 steps in 15 s: 500 steps must pass before the next, which takes 750 s.
    assert pause(0.02, 10, 15.0) == pytest.approx(0.02 / COST_S / 10 * 15)
    assert pause(0.02, 0, 15.0) == EVERY_S, "how fast it is has not been seen"


def test_the_thread_looks_and_ends_with_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    monkeypatch.setattr(live, "HELD", 1)
    write_steps(tmp_path, [LATE] * 2)
    with watching(tmp_path, 1):
        deadline_s = time.monotonic() + 20
        while "data-bound" not in caplog.text and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert "data-bound" in caplog.text
    assert not any(thread.name == "lightwork-verdict" for thread in threading.enumerate())


def test_a_verdict_that_fails_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/rank0.jsonl").write_text('{"step": 1}\n')
    with watching(tmp_path, 1):
        deadline_s = time.monotonic() + 20
        while not caplog.records and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert "the verdict on this run could not be made" in caplog.text
