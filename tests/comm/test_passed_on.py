"""Signals that the supervisor gets: passed on, waited for, and never followed by a new attempt."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lightwork.comm.supervisor import Answer, supervise
from lightwork.comm.verdict import Failure
from tests.comm.test_supervisor import launch, once_at_work, send_here

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)]
)
def test_signals_are_passed_on(tmp_path: Path, signum: signal.Signals, code: int) -> None:
    asked = replace(launch("polite", tmp_path), again=never)
    with once_at_work(tmp_path, lambda: send_here(signum)):
        assert supervise(asked) == code
    for rank in range(2):
        assert (tmp_path / f"rank{rank}.signal").read_text() == signum.name


def never(failure: Failure) -> Answer:
    pytest.fail(f"a new attempt was thought of after {failure}")


def signals_here(pause_s: float) -> Callable[[], None]:
    """Two of them."""

    def twice() -> None:
        send_here(signal.SIGINT)
        time.sleep(pause_s)
        send_here(signal.SIGINT)

    return twice


def test_a_second_signal_kills_at_once(tmp_path: Path) -> None:
    started_s = time.monotonic()
    with once_at_work(tmp_path, signals_here(1.2)):
        assert supervise(launch("stubborn", tmp_path, grace_s=60)) == 130
    assert time.monotonic() - started_s < 30, "they would sleep for a minute"


def test_a_doubled_one_does_not(tmp_path: Path) -> None:
    with once_at_work(tmp_path, signals_here(0.3)):
        assert supervise(launch("saves", tmp_path, grace_s=60)) == 130
    for rank in range(2):
        assert (tmp_path / f"rank{rank}.saved").exists()
        assert (tmp_path / f"rank{rank}.asked").read_text() == "asked\n"


def test_a_rank_that_is_asked_before_it_listens_is_not_started_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert supervise(replace(launch("asked_early", tmp_path), again=never)) == 143
    said = capfd.readouterr().err
    assert said == "rank 1 of 2 was ended by SIGTERM; all ranks were stopped.\n"


def test_ranks_that_left_because_they_were_asked_have_said_so_themselves(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert supervise(replace(launch("was_asked", tmp_path), again=never)) == 143
    assert capfd.readouterr().err == ""


def test_a_signal_after_the_end_changes_nothing(tmp_path: Path) -> None:
    with once_at_work(tmp_path, lambda: send_here(signal.SIGTERM)):
        assert supervise(replace(launch("deaf", tmp_path), again=never)) == 0


def test_that_ranks_were_killed_unsaved_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = replace(launch("stubborn", tmp_path), again=never, grace_s=0.2)
    with once_at_work(tmp_path, lambda: send_here(signal.SIGTERM)):
        assert supervise(asked) == 143
    told = "launch.grace_s was over, so the ranks were killed before they had saved and left\n"
    assert capfd.readouterr().err == told
