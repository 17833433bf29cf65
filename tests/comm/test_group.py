"""Every verb at every size, and what happens when a peer goes away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
import torch

from lightwork.comm import backends
from lightwork.comm import group as group_module
from lightwork.comm.group import Group
from lightwork.errors import PeerLostError
from tests.ranks import run_as_processes, run_as_threads

SIZES = [1, 2, 3, 5]
_REDUCTIONS: dict[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_all_reduce(size: int, op: Any) -> None:
    def reduce(group: Group) -> list[float]:
        tensor = torch.tensor([float(group.rank + 1), -float(group.rank)])
        group.all_reduce(tensor, op).wait()
        return tensor.tolist()

    values = [[float(rank + 1) for rank in range(size)], [-float(rank) for rank in range(size)]]
    expected = [_REDUCTIONS[op](column) for column in values]
    assert run_as_threads(size, reduce) == [expected] * size


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_takes_the_tensor_of_the_source(size: int) -> None:
    def send(group: Group) -> tuple[list[int], int]:
        tensor = torch.full((3,), group.rank)
        transfer = group.broadcast(tensor, source=size - 1).wait()
        return tensor.tolist(), transfer.sent_bytes

    results = run_as_threads(size, send)
    assert [values for values, _ in results] == [[size - 1] * 3] * size
    if size > 1:
        assert [sent for _, sent in results] == [0] * (size - 1) + [24]


@pytest.mark.parametrize("size", SIZES)
def test_all_gather_keeps_rank_order(size: int) -> None:
    def gather(group: Group) -> list[list[list[int]]]:
        output = torch.empty(size, 2, 1, dtype=torch.int64)
        group.all_gather(output, torch.tensor([[group.rank], [-group.rank]])).wait()
        return output.tolist()

    assert run_as_threads(size, gather) == [[[[rank], [-rank]] for rank in range(size)]] * size


@pytest.mark.parametrize("size", [2, 3, 5])
def test_large_exchanges_in_a_ring_do_not_wait_for_each_other(size: int) -> None:
    """Far more than a socket buffer holds: with sends first every rank would stand still."""
    numbers = 2_000_000

    def exchange(group: Group) -> tuple[float, float, int]:
        right, left = (group.rank + 1) % size, (group.rank - 1) % size
        arrived = torch.empty(numbers)
        sent = torch.full((numbers,), float(group.rank))
        transfer = group.exchange([(right, sent)], [(left, arrived)]).wait()
        return float(arrived[0]), float(arrived[-1]), transfer.sent_bytes

    results = run_as_threads(size, exchange)
    assert results == [((rank - 1) % size, (rank - 1) % size, 4 * numbers) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_exchange_of_all_with_all_matches_tensors_by_order(size: int) -> None:
    """Two tensors for each peer, of different lengths, while an all_reduce is under way."""

    def exchange(group: Group) -> bool:
        others = [rank for rank in range(size) if rank != group.rank]
        total = torch.ones(1000)
        reduced = group.all_reduce(total)
        sends = [
            (peer, torch.full((length,), group.rank * 10.0 + peer))
            for peer in others
            for length in (200_000, 3)
        ]
        receives = [(peer, torch.empty(length)) for peer in others for length in (200_000, 3)]
        group.exchange(sends, receives).wait()
        reduced.wait()
        assert bool((total == size).all())
        return all(bool((t == peer * 10.0 + group.rank).all()) for peer, t in receives)

    assert all(run_as_threads(size, exchange))


def test_exchange_posts_receives_before_sends() -> None:
    """Looked at from outside: the order in which the torch group is called."""

    def exchange(group: Group) -> list[str]:
        calls: list[str] = []
        inner: Any = group.process_group

        class Spy:
            def send(self, tensors: Any, peer: int, tag: int) -> Any:
                calls.append("send")
                return inner.send(tensors, peer, tag)

            def recv(self, tensors: Any, peer: int, tag: int) -> Any:
                calls.append("recv")
                return inner.recv(tensors, peer, tag)

        group._process_group = Spy()  # type: ignore[assignment]
        other = 1 - group.rank
        tensors = [torch.zeros(1) for _ in range(4)]
        sends = [(other, tensors[0]), (other, tensors[1])]
        group.exchange(sends, [(other, tensors[2]), (other, tensors[3])]).wait()
        return calls

    assert run_as_threads(2, exchange) == [["recv", "recv", "send", "send"]] * 2


@pytest.mark.parametrize("size", SIZES)
def test_gather_json_brings_every_value_to_every_rank(size: int) -> None:
    def value(rank: int) -> Any:
        return {"rank": rank, "text": ["é", "日本語" * rank, "👨‍👩‍👧", "\ud800", ""], "none": None}

    def gather(group: Group) -> list[Any]:
        return group.gather_json(value(group.rank))

    assert run_as_threads(size, gather) == [[value(rank) for rank in range(size)]] * size


@pytest.mark.parametrize("size", [1, 2])
def test_gather_json_refuses_on_all_ranks_what_one_cannot_say(size: int) -> None:
    def gather(group: Group) -> list[Any]:
        with pytest.raises(ValueError, match="value of rank 0 is not JSON"):
            group.gather_json({"a": object()} if group.rank == 0 else "fine")
        return group.gather_json(group.rank)  # the group still works

    assert run_as_threads(size, gather) == [list(range(size))] * size


def test_gather_json_refuses_too_long_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "MAX_JSON_BYTES", 10)

    def gather(group: Group) -> None:
        with pytest.raises(ValueError, match="value of rank 1 takes 22 bytes"):
            group.gather_json("x" * 20 * group.rank)

    run_as_threads(2, gather)


def test_split_counts_ranks_anew_and_leaves_the_others_out() -> None:
    def split(group: Group) -> list[Any]:
        part = group.split([4, 0, 2])
        alone = group.split([3])
        pair = group.split([0, 1] if group.rank < 2 else [2, 4])
        found: list[Any] = [None, None, None]
        if (again := group.split([0, 1])) is not None:  # other connections than the first time
            assert pair is not None
            late = pair.all_reduce(torch.ones(1)) if group.rank == 0 else None
            assert again.gather_json(group.rank) == [0, 1]
            (late or pair.all_reduce(torch.ones(1))).wait()
        for place, member in enumerate((part, alone, pair)):
            if member is not None:
                found[place] = (member.rank, member.gather_json(group.rank))
        return found

    assert run_as_threads(5, split) == [
        [(1, [4, 0, 2]), None, (0, [0, 1])],
        [None, None, (1, [0, 1])],
        [(2, [4, 0, 2]), None, (0, [2, 4])],
        [None, (0, [3]), None],
        [(0, [4, 0, 2]), None, (1, [2, 4])],
    ]


def test_transfer_ends_when_the_message_did_not_when_it_was_waited_for() -> None:
    def reduce(group: Group) -> tuple[bool, float, float]:
        before_s = time.monotonic()
        pending = group.all_reduce(torch.ones(1000))
        time.sleep(0.5)
        done = pending.done()
        transfer = pending.wait()
        assert pending.wait() is transfer
        return done, transfer.started_s - before_s, transfer.finished_s - before_s

    for done, started_s, finished_s in run_as_threads(3, reduce):
        assert done
        assert 0 <= started_s <= finished_s < 0.4


def test_a_lost_peer_is_named_to_all_who_wait() -> None:
    def lose(group: Group) -> str:
        if group.rank == 1:
            group.abort()
            return ""
        with pytest.raises(PeerLostError) as caught:
            group.all_reduce(torch.ones(10)).wait()
        with pytest.raises(PeerLostError):  # noticed while posting, told while waiting
            group.exchange([], [(1, torch.ones(10))]).wait()
        group.abort()
        return str(caught.value)

    for message in run_as_threads(3, lose)[::2]:
        assert "another rank went away or did not answer: the message 'all_reduce'" in message


def test_abort_does_not_wait_for_messages_under_way() -> None:
    aborted = Event()

    def abort(group: Group) -> tuple[bool, float]:
        if group.rank == 1:
            return aborted.wait(20), 0.0
        started_s = time.monotonic()
        pending = group.all_reduce(torch.ones(10))
        group.abort()
        with pytest.raises(PeerLostError):
            pending.wait()
        aborted.set()
        return True, time.monotonic() - started_s

    (_, took_s), (in_time, _) = run_as_threads(2, abort)
    assert in_time
    assert took_s < 5


def test_a_peer_that_does_not_answer_is_lost_after_the_timeout() -> None:
    def wait(group: Group) -> float:
        if group.rank == 1:
            time.sleep(1.5)
            return 0.0
        started_s = time.monotonic()
        with pytest.raises(PeerLostError):
            group.all_reduce(torch.ones(10)).wait()
        return time.monotonic() - started_s

    assert 0.4 < run_as_threads(2, wait, timeout_s=0.5)[0] < 1.4


def test_what_cannot_travel_is_refused() -> None:
    def refuse(group: Group) -> None:
        square = torch.ones(2, 2)
        with pytest.raises(ValueError, match="contiguous"):
            group.all_reduce(torch.ones(2, 3).t())
        with pytest.raises(ValueError, match="shape"):
            group.all_gather(torch.ones(3, 2, 2), square)
        with pytest.raises(ValueError, match="other than itself"):
            group.exchange([(group.rank, square)], [])
        with pytest.raises(ValueError, match="rank 2 is not in this group of 2"):
            group.broadcast(square, source=2)
        group.close()
        with pytest.raises(RuntimeError, match="closed"):
            group.all_reduce(square)

    run_as_threads(2, refuse)


def test_alone_is_finished_at_once() -> None:
    group = Group.alone()
    assert (group.rank, group.size, group.process_group) == (0, 1, None)
    tensor = torch.tensor([3.0])
    for pending in (group.all_reduce(tensor), group.broadcast(tensor), group.exchange([], [])):
        assert pending.done()
        assert pending.wait().sent_bytes == 0
    assert tensor.tolist() == [3.0]


def sum_of_ranks(group: Group, factor: int) -> list[Any]:
    """Runs in ranks that are processes."""
    tensor = torch.tensor([float(group.rank * factor)])
    group.all_reduce(tensor).wait()
    return [os.getpid(), tensor.item(), torch.distributed.is_initialized()]


def fail_on_rank_one(group: Group) -> None:
    """Runs in ranks that are processes."""
    if group.rank == 1:
        raise ArithmeticError("rank one fell")
    group.all_reduce(torch.ones(1)).wait()


@pytest.mark.processes
def test_ranks_as_processes() -> None:
    results = run_as_processes(3, f"{__file__}:sum_of_ranks", 10)
    assert [rest for _, *rest in results] == [[30.0, True]] * 3
    assert len({pid for pid, *_ in results} | {os.getpid()}) == 4


@pytest.mark.processes
def test_a_failing_process_is_not_waited_for() -> None:
    """Its way out of ``open_group`` breaks the connections, so nobody waits for the timeout."""
    started_s = time.monotonic()
    with pytest.raises(RuntimeError, match=r"rank one fell|another rank went away"):
        run_as_processes(2, f"{__file__}:fail_on_rank_one")
    assert time.monotonic() - started_s < 15


def test_a_message_is_not_let_go_of_by_the_threads_of_gloo() -> None:
    """They would need Python's lock to free it, which aborts a process that is ending."""

    def reduce(group: Group) -> bool:
        group.gather_json(group.rank)
        tensor = torch.ones(3)
        group.all_reduce(tensor).wait()
        kept = list(backends._KEPT)
        group.exchange([(1 - group.rank, tensor)], [(1 - group.rank, torch.empty(3))]).wait()
        added = len([work for work in backends._KEPT if work not in kept])
        return bool(kept) and added >= 2

    assert run_as_threads(2, reduce) == [True, True]
