"""The line between neighbours, as measured by the ranks themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from torch import Tensor

from lightwork.assembly.streaming import PROBE_BYTES, measure_link
from lightwork.comm.group import Group
from lightwork.comm.message import Pending
from lightwork.report.exchange import Link
from tests.ranks import run_as_threads


class Slow(Group):
    """A group in which what goes from rank 1 to rank 2 takes its time."""

    held_bytes: list[int]

    def exchange(
        self, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, Tensor]]
    ) -> Pending:
        for peer, tensor in sends:
            if (self.rank, peer) == (1, 2):
                self.held_bytes.append(tensor.nbytes)
                time.sleep(tensor.nbytes / 20e6)
        return super().exchange(sends, receives)


@pytest.mark.parametrize("size", [2, 3])
def test_all_ranks_have_the_same_and_a_slow_line_shows(size: int) -> None:
    def rank(group: Group) -> Link:
        group.__class__ = Slow
        assert isinstance(group, Slow)
        group.held_bytes = []
        found = measure_link(group, "cpu", 2_000_000)
        if group.held_bytes:
            assert PROBE_BYTES <= max(group.held_bytes) <= 2_000_000
        return found

    first, *others = run_as_threads(size, rank)
    assert others == [first] * (size - 1)
    assert len(first.bytes_per_s) == size
    assert 0 < first.latency_s < 1
    if size == 3:
        assert first.slowest == first.bytes_per_s[1] <= 20e6
