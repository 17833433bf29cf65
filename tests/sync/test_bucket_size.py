"""The size of buckets: from what messages cost, alike on all ranks, and within its limits."""

from __future__ import annotations

import time

import pytest
import torch

from lightwork.comm.group import Group
from lightwork.comm.message import Pending
from lightwork.sync.all_reduce import RankSums
from lightwork.sync.bucket_size import LEAST, MOST, Cost, best_bucket_bytes, measured
from tests.ranks import run_as_threads

CPU = torch.device("cpu")
MIB = 2**20


def test_the_best_size_is_the_one_that_costs_least() -> None:
    for message_s, byte_s, gradient_bytes in (
        (1e-3, 4e-8, 90e6), (1e-4, 1e-9, 90e6), (1e-4, 1e-9, 1e9), (3e-4, 1e-8, 20e6),
    ):  # fmt: skip

        def seconds(size: float, a: float = message_s, b: float = byte_s) -> float:
            return gradient_bytes / size * a + gradient_bytes * b + a + b * size  # noqa: B023

        chosen = best_bucket_bytes(Cost(message_s, byte_s), int(gradient_bytes))
        others = [2**power for power in range(18, 27)]
        assert chosen in others
        assert seconds(chosen) <= 1.01 * min(map(seconds, others))


def test_it_stays_within_limits() -> None:
    assert best_bucket_bytes(Cost(1e-9, 1.0), 10**9) == LEAST
    assert best_bucket_bytes(Cost(1.0, 1e-12), 10**12) == MOST
    assert best_bucket_bytes(Cost(1e-4, 1e-9), 0) == LEAST


class Slow:
    """A strategy of known cost, which only rank 1 has; the others are at once done."""

    name = "slow"

    def __init__(self, group: Group, cost: Cost) -> None:
        self._group, self._cost = group, cost

    def open(self, flat: torch.Tensor) -> RankSums:
        return RankSums(flat, self._send)

    def _send(self, flat: torch.Tensor) -> Pending:
        time.sleep(self._cost.message_s + self._cost.byte_s * flat.nbytes)
        return Group.alone().all_reduce(flat)


def test_the_costs_of_the_slowest_rank_are_found_and_told_to_all() -> None:
    cost = Cost(0.01, 2e-8)

    def find(group: Group) -> Cost:
        own = cost if group.rank == 1 else Cost(0.0, 0.0)
        return measured(group, Slow(group, own), CPU)

    found = run_as_threads(3, find)
    assert found[0] == found[1] == found[2]
    assert found[0].message_s == pytest.approx(cost.message_s, rel=0.5)
    assert found[0].byte_s == pytest.approx(cost.byte_s, rel=0.3)
