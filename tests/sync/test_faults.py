"""Whatever message goes wrong on a rank, in whatever way: all end, and say where they were."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from lightwork.comm.group import Group
from lightwork.data.plan import assign
from lightwork.errors import LightworkError
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.contract import Strategy
from lightwork.sync.ring import Ring
from lightwork.sync.tree import Tree
from lightwork.telemetry.timing import StepClock
from tests.ranks import run_as_threads
from tests.sync.faulty import KINDS, Faults, FaultyGroup
from tests.train.toy import ToyTask, toy_run

WAYS: dict[str, Callable[[Group], Strategy]] = {
    "all_reduce": AllReduce,
    "ring": Ring,
    "tree": lambda group: Tree(group, assign(6, group.size)),
}
TIMEOUT_S = 2.0
PLACE = re.compile(r"rank \d, step \d, (backward|exchange of gradients|agreement): ")
BUCKET = re.compile(r"bucket \d of \d \(from [a-z.]+ on\): ")


def train(group: Group, way: str, faults: list[Faults]) -> str:
    """Three steps of a toy; returns how they ended."""
    own = faults[group.rank]
    faulty: Any = FaultyGroup(group, own)
    try:
        stepper, loader, _ = toy_run(faulty, GradientBuckets(WAYS[way](faulty), 64), ToyTask())
        for work in loader.work(1, 3):
            stepper.run(work.step, work, 0.05, StepClock(torch.device("cpu")))
    except Exception as error:  # noqa: BLE001 - it is looked at
        group.abort()
        return (
            f"{type(error).__name__}: {error}" if isinstance(error, LightworkError) else repr(error)
        )
    finally:
        for others in faults:
            if others is not own:
                others.over.set()
    return "trained"


def ends(way: str, kind: str, at: int | None) -> tuple[list[str], int]:
    """How three ranks end of which rank 1 has the fault, and how many messages it posted."""
    faults = [Faults(kind, at if rank == 1 else None) for rank in range(3)]
    return run_as_threads(3, partial(train, way=way, faults=faults), TIMEOUT_S), faults[1].count


def messages(way: str) -> int:
    found, count = ends(way, "raises", None)
    assert found == ["trained"] * 3
    return count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_all_ranks_end_with_words(way: str, kind: str) -> None:
    count = messages(way)
    every = max(1, count // 3) if kind == "stalls" else max(1, count // 12)
    named = 0
    for at in range(0, count - 1, every):  # after the last one nobody waits for anybody
        began_s = time.monotonic()
        found, _ = ends(way, kind, at)
        assert time.monotonic() - began_s < 10 * TIMEOUT_S, "some rank hung"
        for rank in (0, 2):
            assert PLACE.search(found[rank]), (at, found)
            assert "RuntimeError" not in found[rank], (at, found)
        assert "trained" not in found, (at, found)
        named += all(BUCKET.search(found[rank]) for rank in (0, 2))
    assert named, "no fault came upon a bucket"
