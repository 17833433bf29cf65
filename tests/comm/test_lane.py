"""Exchanges off the critical path: in order, with connections of their own, and errors are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
import torch
from torch import Tensor

from lightwork.comm import lane as lane_module
from lightwork.comm.group import Group
from lightwork.comm.lane import Journey, add, travel
from lightwork.comm.message import Pending, Transfer, waited_s
from lightwork.errors import PeerLostError
from tests.ranks import run_as_threads

CPU = torch.device("cpu")


def there_and_back(group: Group, tensor: Tensor) -> Journey:
    """To the other of two ranks, which adds one, and back."""
    other, coming = 1 - group.rank, torch.empty_like(tensor)
    yield group.exchange([(other, tensor)], [(other, coming)])
    coming += 1
    yield group.exchange([(other, coming)], [(other, tensor)])


def test_journeys_of_several_lanes_and_messages_beside_them_do_not_mix() -> None:
    def run(group: Group) -> list[float]:
        lanes = [group.lane(), group.lane()]
        found = []
        for step in range(20):
            tensors = [torch.full((100,), 10.0 * step + k) for k in range(6)]
            going = [
                lanes[k % 2].go([there_and_back(lanes[k % 2].group, tensor)], CPU)
                for k, tensor in enumerate(tensors)
            ]
            beside = torch.ones(1)
            group.all_reduce(beside).wait()
            assert beside.item() == 2
            found += [float(message.wait().sent_bytes) for message in going]
            assert all(message.done() for message in going)
            found += [float(tensor.mean()) for tensor in tensors]
        return found

    wanted = [
        x for step in range(20) for x in [800.0] * 6 + [10.0 * step + k + 1 for k in range(6)]
    ]
    assert run_as_threads(2, run) == [wanted, wanted]


def threads_that_come(function: Callable[[Tensor, Tensor], object]) -> int:
    """By which this process grows when a thread of its own adds up a million numbers."""
    process, found = psutil.Process(), [0, 0]
    total, other = torch.zeros(10**6), torch.ones(10**6)

    def run() -> None:
        found[0] = process.num_threads()
        function(total, other)
        found[1] = process.num_threads()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert bool((total == 1).all())
    return found[1] - found[0]


def test_adding_takes_no_core_from_backward() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(9)
    try:
        assert threads_that_come(add) == 0
        assert threads_that_come(Tensor.add_) > 0, "otherwise this could not fail"
    finally:
        torch.set_num_threads(before)


def test_a_closed_group_leaves_no_thread() -> None:
    def run(group: Group) -> None:
        lane = group.lane()
        lane.go([there_and_back(lane.group, torch.ones(1))], CPU).wait()

    run_as_threads(2, run)
    assert not [t for t in threading.enumerate() if t.name == "lightwork-lane"]


def test_what_fails_is_told_to_who_waits_and_nothing_follows() -> None:
    def broken(group: Group) -> Journey:
        raise ZeroDivisionError(group.rank)
        yield

    def run(group: Group) -> str:
        lane = group.lane()
        if group.rank == 1:
            failing = lane.go([broken(lane.group)], CPU)
            after = lane.go([there_and_back(lane.group, torch.ones(1))], CPU)
            for message in (failing, after, failing):
                with pytest.raises(ZeroDivisionError):
                    message.wait()
            group.abort()
            return "failed"
        with pytest.raises(PeerLostError):
            lane.go([there_and_back(lane.group, torch.ones(1))], CPU).wait()
        return "told"

    assert run_as_threads(2, run) == ["told", "failed"]


def test_standing_still_is_counted_for_who_waits() -> None:
    def slow(group: Group) -> Journey:
        time.sleep(0.2)
        yield group.exchange([], [])

    def run(group: Group) -> float:
        lane = group.lane()
        before_s = waited_s()
        message = lane.go([slow(lane.group)], CPU)
        message.wait()
        message.wait()
        return waited_s() - before_s

    assert all(0.1 < waited < 5 for waited in run_as_threads(2, run))


def test_as_many_journeys_are_under_way_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "AHEAD", 2)
    told: list[str] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self._name = name
            told.append(f"post {name}")

        def wait(self) -> Transfer:
            told.append(f"wait {self._name}")
            return Transfer(0.0, 0.0, 1)

        def done(self) -> bool:
            return True

    def journey(name: str) -> Iterator[Pending]:
        for hop in range(2):
            yield Noted(f"{name}{hop}")

    assert travel(journey(name) for name in "abc") == 6
    assert told == [
        "post a0", "post b0", "wait a0", "post a1", "wait b0", "post b1", "wait a1", "post c0",
        "wait b1", "wait c0", "post c1", "wait c1",
    ]  # fmt: skip
