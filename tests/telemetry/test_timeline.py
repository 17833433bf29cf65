"""Where the seconds of a step go: parts that add up, and waits told from work."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from lightwork.comm.group import Group
from lightwork.comm.message import Transfer, waited_s
from lightwork.sync.buckets import under_way_s
from lightwork.telemetry.records import STEP_PARTS
from lightwork.telemetry.timing import StepClock, exclusive
from lightwork.train.pace import Pace
from tests.ranks import run_as_threads

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("behind_s", "wait_s", "transfer_s"),
    [(0.0, 0.0, 0.5), (0.2, 0.2, 0.3), (9.0, 0.5, 0.0), (-0.1, 0.0, 0.5)],
)
def test_parts_add_up_to_the_step(behind_s: float, wait_s: float, transfer_s: float) -> None:
    seconds = {"forward": 1.0, "backward": 2.0, "sync": 0.1, "control": 0.05, "blocked": 0.5,
               "optimizer": 0.25, "step": 4.0, "duties": 7.0}  # fmt: skip
    found = exclusive(seconds, behind_s)
    assert sum(found[f"{part}_s"] for part in STEP_PARTS) == pytest.approx(found["step_s"])
    assert (found["wait_s"], found["transfer_s"]) == pytest.approx((wait_s, transfer_s))
    assert found["sync_s"] == pytest.approx(0.15)
    assert found["other_s"] == pytest.approx(0.1)
    assert found["duties_s"] == 7.0


def test_a_device_stands_still_in_the_part_that_waits_for_the_sums() -> None:
    found = exclusive({"forward": 1.0, "sync": 0.4, "control": 0.1, "step": 2.0}, 0.1)
    assert (found["wait_s"], found["transfer_s"], found["sync_s"]) == pytest.approx((0.1, 0.3, 0.1))


def test_waiting_for_others_is_not_the_work_it_happens_in() -> None:
    def step(group: Group) -> tuple[dict[str, float], float]:
        clock, pace = StepClock(CPU), Pace()
        with clock.part("backward"):
            if group.rank == 1:
                time.sleep(0.5)
            group.all_reduce(torch.ones(1)).wait()
        clock.stop()
        return clock.seconds(), pace.busy_s()

    (fast, fast_busy_s), (slow, slow_busy_s) = run_as_threads(2, step)
    assert fast["blocked"] > 0.4
    assert fast["backward"] < 0.3 < slow["backward"]
    assert fast_busy_s < 0.3 < slow_busy_s, "after the same seconds"


def test_waits_are_counted_for_each_thread() -> None:
    def wait_long(group: Group) -> None:
        if group.rank == 1:
            time.sleep(0.3)
        group.all_reduce(torch.ones(1)).wait()

    before = waited_s()
    run_as_threads(2, wait_long)
    assert waited_s() == before
    assert threading.current_thread() is threading.main_thread()


def test_a_new_meeting_begins_a_new_count() -> None:
    pace = Pace()
    time.sleep(0.2)
    pace.met()
    assert pace.busy_s() < 0.1


@pytest.mark.parametrize(("until_s", "seconds"), [(99.0, 5.0), (3.5, 2.5), (1.0, 0.0), (6.5, 3.5)])
def test_messages_that_overlap_are_not_counted_twice(until_s: float, seconds: float) -> None:
    transfers = [Transfer(a, b, 1) for a, b in ((1, 3), (2, 4), (2.5, 3), (6, 8))]
    assert under_way_s(transfers, until_s) == pytest.approx(seconds)
