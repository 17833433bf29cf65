"""New attempts after a rank died or hung; ranks without torch, which start fast."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from lightwork.comm import attempt, flight
from lightwork.comm.hang import FIRST_TIMES
from lightwork.comm.supervisor import Answer, Launch, supervise
from lightwork.comm.verdict import Failure
from tests.comm.test_supervisor import launch, rank_pid, send_here, wait_for

pytestmark = pytest.mark.processes


class Asked:
    """Says yes to the first ``times`` failures, and keeps all of them."""

    def __init__(self, times: int) -> None:
        self.failures: list[Failure] = []
        self._times = times

    def again(self, failure: Failure) -> Answer:
        self.failures.append(failure)
        goes_on = len(self.failures) <= self._times
        return Answer(goes_on, f"answer {len(self.failures)}")


def dies(folder: Path, deaths: int, asked: Asked) -> Launch:
    (folder / "deaths").write_text(str(deaths))
    return replace(launch("dies", folder), again=asked.again)


def test_a_dead_rank_is_followed_by_a_new_attempt(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(9)
    assert supervise(dies(tmp_path, 2, asked)) == 0
    assert capfd.readouterr().err == "answer 1\nanswer 2\n"
    started = sorted(path.name for path in tmp_path.glob("attempt*"))
    assert started == [f"attempt{a}.rank{r}" for a in range(3) for r in range(2)]
    first, second = asked.failures
    killed = "rank 1 was ended by SIGKILL (often because memory ran out) in step 3 (forward)"
    assert first.what == killed
    assert (first.attempt, first.rank, first.step, first.examples) == (0, 1, 3, "q7, q8")
    assert (second.attempt, second.code) == (1, 137)


def test_after_the_last_one_the_failure_and_the_reason_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(1)
    assert supervise(dies(tmp_path, 5, asked)) == 137
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        "answer 1",
        "rank 1 of 2 was ended by SIGKILL (often because memory ran out); all ranks were stopped.",
        "answer 2",
    ]


@pytest.mark.parametrize(("mode", "code"), [("joint", 2), ("lonely", 2), ("was_asked", 143)])
def test_what_a_person_must_mend_or_wished_is_not_tried_again(
    tmp_path: Path, mode: str, code: int
) -> None:
    asked = Asked(9)
    assert supervise(replace(launch(mode, tmp_path, ranks=3), again=asked.again)) == code
    assert asked.failures == []


def test_a_bug_is_tried_again(tmp_path: Path) -> None:
    asked = Asked(0)
    assert supervise(replace(launch("traceback", tmp_path, ranks=3), again=asked.again)) == 1
    (failure,) = asked.failures
    assert (failure.rank, failure.what) == (
        1,
        "rank 1 ended with exit code 1 before a step (start)",
    )


def hangs(folder: Path, how: str, asked: Asked, timeout_s: float) -> Launch:
    (folder / "how").write_text(how)
    return replace(launch("hangs", folder), again=asked.again, hang_timeout_s=timeout_s)


def test_a_rank_that_hangs_is_named_with_its_stack_and_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(9)
    assert supervise(hangs(tmp_path, "sleeps", asked, 1.0)) == 0
    (failure,) = asked.failures
    assert (failure.rank, failure.step, failure.code) == (1, 3, attempt.HANGS)
    assert failure.what.startswith("rank 1 has made no progress for ")
    assert failure.what.endswith(
        " s in step 3 (forward) with the examples q7, q8; the others wait for it"
    )
    shown = capfd.readouterr().err
    assert "in stand_still" in shown
    log = tmp_path / "logs/rank1.log"
    assert str(log) in shown
    assert "in stand_still" in log.read_text()


def test_a_stopped_rank_is_named_and_ended(tmp_path: Path) -> None:
    asked = Asked(0)
    assert supervise(hangs(tmp_path, "stops", asked, 1.0)) == attempt.HANGS
    (failure,) = asked.failures
    assert "; its process is stopped (by SIGSTOP, or by a debugger); the others" in failure.what
    assert not [rank for rank in range(2) if psutil.pid_exists(rank_pid(tmp_path, rank))]


def test_a_slow_rank_is_let_alone(tmp_path: Path) -> None:
    asked = Asked(0)
    assert supervise(hangs(tmp_path, "a moment", asked, 20.0)) == 0
    (tmp_path / "how").write_text("stops")
    for rank in range(2):
        (tmp_path / f"rank{rank}.pid").unlink()
    stopped = replace(launch("hangs", tmp_path), again=asked.again, hang_timeout_s=20.0)

    def goes_on() -> None:
        wait_for([tmp_path / f"rank{rank}.pid" for rank in range(2)])
        time.sleep(0.5)
        os.kill(rank_pid(tmp_path, 1), signal.SIGCONT)
        time.sleep(0.3)
        send_here(signal.SIGTERM)

    assert with_help(goes_on, stopped) == 143
    assert asked.failures == []


def with_help(action: Callable[[], None], asked: Launch) -> int:
    """Supervise here, while a thread does something."""
    thread = threading.Thread(target=action)
    thread.start()
    try:
        return supervise(asked)
    finally:
        thread.join()


def test_nobody_looks_where_there_is_no_timeout(tmp_path: Path) -> None:
    (tmp_path / "how").write_text("sleeps")

    def end() -> None:
        wait_for([tmp_path / f"rank{rank}.pid" for rank in range(2)])
        time.sleep(0.2 * FIRST_TIMES + 0.5)
        send_here(signal.SIGTERM)

    assert with_help(end, launch("hangs", tmp_path)) == 143


def test_a_signal_ends_the_run_although_a_rank_failed_before(tmp_path: Path) -> None:
    def again(failure: Failure) -> Answer:
        send_here(signal.SIGTERM)
        return Answer(True, "")

    (tmp_path / "deaths").write_text("1000")
    assert supervise(replace(launch("dies", tmp_path), again=again)) == 143


def test_the_flight_recorder_is_on_and_a_persons_own_values_stay(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    found = flight.recording({"A": "b"}, tmp_path / "logs", folder)
    assert found == {
        "A": "b",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/logs/nccl_rank",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{folder}/nccl_rank",
    }
    own = {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/mine",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/pipe",
    }
    assert flight.recording(own, tmp_path / "logs", folder) == own


def test_the_flight_recorder_is_asked_and_its_files_are_found(tmp_path: Path) -> None:
    environ = flight.recording({}, tmp_path, tmp_path)
    assert flight.dumps(environ, [0, 1], 0.0) == []
    pipe = tmp_path / "nccl_rank1.pipe"
    os.mkfifo(pipe)
    listener = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def write_when_asked() -> None:
        while not wished(listener):
            time.sleep(0.01)
        (tmp_path / "nccl_rank1").write_bytes(b"records")

    thread = threading.Thread(target=write_when_asked)
    thread.start()
    try:
        assert flight.dumps(environ, [0, 1], 0.0) == [tmp_path / "nccl_rank1"]
    finally:
        thread.join()
        os.close(listener)
    assert flight.dumps(environ, [0, 1], time.time() + 60) == [], "that is of an earlier attempt"


def wished(listener: int) -> bool:
    with suppress(BlockingIOError):  # somebody opened it and has not written yet
        return bool(os.read(listener, 1))
    return False


def test_where_others_lost_patience_it_is_told_with_whom(tmp_path: Path) -> None:
    asked = Asked(0)
    assert supervise(replace(launch("impatient", tmp_path), again=asked.again)) == 3
    (failure,) = asked.failures
    assert failure.what == "rank 0 lost another rank; rank 1 was in step 3 (forward)"


def test_an_error_that_all_ranks_share_is_shown_by_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(0)
    assert supervise(replace(launch("step", tmp_path), again=asked.again)) == 1
    (failure,) = asked.failures
    assert (failure.shown, failure.step) == (True, 3)
    assert failure.what.endswith(": step 3 failed. rank 1: a bug")
    assert capfd.readouterr().err == "step 3 failed. rank 1: a bug\nanswer 1\n"
