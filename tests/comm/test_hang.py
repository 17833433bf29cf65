"""Which rank is behind: one that stands still without waiting, or is stopped as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lightwork.comm import hang
from lightwork.comm.hang import FIRST_TIMES, Hang, Watch, is_stopped, words_of
from lightwork.comm.phases import Phases, Slot
from lightwork.comm.verdict import RankProcess

TIMEOUT_S = 10.0


class Team:
    """Ranks that say what a test lets them say, beside processes that only exist."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.file = Phases.made(folder / "phases", ranks)
        self.slots = [Slot(self.file.path, rank) for rank in range(ranks)]
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        self.ranks = [
            RankProcess(rank, subprocess.Popen(command), None, 0, folder / f"{rank}.told")
            for rank in range(ranks)
        ]
        self.watch = Watch(self.file, self.ranks, TIMEOUT_S)
        self.now = time.monotonic()

    def say(self, name: str, step: int | None = None) -> None:
        for slot in self.slots:
            slot.enter(name, step)

    def silent(self, seconds: float) -> Hang | None:
        """What is found within so many seconds, in which a look is taken twice a second."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            found = self.watch.look(self.now)
            if found is not None:
                return found
        return None

    def steps(self, last: int) -> None:
        for step in range(1, last + 1):
            self.say("data", step)
            assert self.silent(1.0) is None


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """Three ranks."""
    team = Team(tmp_path, 3)
    yield team
    for rank in team.ranks:
        rank.process.kill()
        rank.process.wait()


def test_the_one_that_does_not_wait_is_behind(team: Team) -> None:
    team.steps(2)
    team.slots[1].work_on("q3, q7")
    team.slots[1].enter("backward")
    team.slots[0].enter("sync")  # it waits on the device, where no message says so
    with team.slots[2].waiting():
        assert team.silent(TIMEOUT_S - 1) is None
        found = team.silent(3)
    assert found is not None
    assert [culprit.rank for culprit in found.culprits] == [1]
    assert words_of(found) == (
        "rank 1 has made no progress for 10 s in step 2 (backward) with the examples q3, q7; "
        "the others wait for it"
    )


def test_among_several_the_earlier_step_is_behind(team: Team) -> None:
    team.steps(2)
    team.slots[2].enter("backward")
    for rank in (0, 1):
        team.slots[rank].enter("forward", 3)
    found = team.silent(TIMEOUT_S + 2)
    assert found is not None
    assert [culprit.rank for culprit in found.culprits] == [2, 0, 1]
    assert words_of(found) == (
        "rank 2 has made no progress for 10 s in step 2 (backward); rank 0 stands still, too, in "
        "step 3 (forward); rank 1 stands still, too, in step 3 (forward)"
    )


def test_progress_of_one_that_others_wait_for_is_no_hang(team: Team) -> None:
    """As in an evaluation: batch after batch on one rank, for longer than the timeout."""
    team.steps(2)
    with team.slots[0].waiting(), team.slots[1].waiting():
        for _ in range(5):
            team.slots[2].enter("evaluate")
            assert team.silent(TIMEOUT_S - 2) is None


def test_all_wait_for_each_other(team: Team) -> None:
    team.steps(2)
    with team.slots[0].waiting(), team.slots[1].waiting(), team.slots[2].waiting():
        found = team.silent(TIMEOUT_S + 2)
    assert found is not None
    assert words_of(found).startswith("all ranks wait for each other, for 10 s: rank 0 in step")


def test_the_first_update_of_an_attempt_may_take_longer(team: Team) -> None:
    team.say("build")
    assert team.silent(TIMEOUT_S + 5) is None
    team.say("forward", 31)
    assert team.silent(FIRST_TIMES * TIMEOUT_S - 1) is None
    assert team.silent(3) is not None


def test_a_slow_disk_is_given_more_time(team: Team) -> None:
    team.steps(2)
    with team.slots[1].waiting(), team.slots[2].waiting():
        team.slots[0].enter("save")
        assert team.silent(FIRST_TIMES * TIMEOUT_S - 1) is None
        assert team.silent(3) is not None


def test_preparing_takes_as_long_as_it_takes_unless_the_process_is_stopped(team: Team) -> None:
    team.say("meeting")
    team.slots[1].enter("prepare")
    assert team.silent(10 * TIMEOUT_S) is None
    stop(team, 1)
    found = team.silent(3)
    assert found is not None
    assert words_of(found) == (
        "rank 1 has made no progress for 100 s before a step (prepare); its process is stopped (by "
        "SIGSTOP, or by a debugger); the others wait for it"
    )


def test_a_stopped_rank_is_to_blame_even_where_it_waited(team: Team) -> None:
    team.steps(2)
    with team.slots[0].waiting(), team.slots[1].waiting(), team.slots[2].waiting():
        stop(team, 2)
        found = team.silent(TIMEOUT_S + 2)
    assert found is not None
    assert [culprit.rank for culprit in found.culprits] == [2]
    assert found.culprits[0].stopped


def test_a_pause_of_the_whole_machine_is_no_hang(team: Team) -> None:
    team.steps(2)
    team.now += 1000
    assert team.watch.look(team.now) is None
    assert team.silent(TIMEOUT_S - 2) is None


def test_ranks_that_say_nothing_are_not_watched(team: Team) -> None:
    assert team.silent(100 * TIMEOUT_S) is None


def test_a_rank_that_has_ended_is_not_behind(team: Team) -> None:
    team.steps(2)
    team.ranks[1].exit_code = 0
    with team.slots[0].waiting(), team.slots[2].waiting():
        found = team.silent(TIMEOUT_S + 2)
    assert found is not None
    assert [culprit.rank for culprit in found.culprits] == [0, 2]


def stop(team: Team, rank: int) -> None:
    process = team.ranks[rank].process
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 10
    while not is_stopped(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_process_is_not_stopped() -> None:
    assert not is_stopped(2**22 + 1)


def test_the_main_thread_is_shown() -> None:
    stack = (
        'Thread 0x01 (most recent call first):\n  File "queue.py", line 1 in get\n\n'
        'Current thread 0x02 (most recent call first):\n  File "loop.py", line 7 in train\n'
    )
    assert hang.innermost(stack) == (
        '  Current thread 0x02 (most recent call first):\n  File "loop.py", line 7 in train'
    )
