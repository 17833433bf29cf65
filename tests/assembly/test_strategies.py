"""From settings to what sums gradients: measured once, by the strategy that is going to be used."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from lightwork.assembly import strategies
from lightwork.assembly.strategies import Chosen, chosen, strategy_of
from lightwork.comm.group import Group
from lightwork.settings import default_of
from lightwork.settings.running import SyncSettings
from lightwork.sync.bucket_size import Cost
from lightwork.sync.contract import Strategy
from tests.ranks import run_as_threads

AUTO = SyncSettings.model_validate({"strategy": "ring", "bucket_bytes": "auto"})


def test_a_rank_alone_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "measured", None)  # calling it fails
    alone = Group.alone()
    use = chosen(AUTO, alone, strategy_of("ring", alone, 1), 10**8, {})
    assert use == Chosen("ring", 1, default_of("sync.bucket_bytes"))


def test_what_a_checkpoint_says_is_taken_where_ranks_and_strategy_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def measured(_: Group, strategy: Strategy, __: object) -> Cost:
        asked.append(strategy.name)
        return Cost(1e-3, 1e-8)

    monkeypatch.setattr(strategies, "measured", measured)

    def run(group: Group) -> list[int]:
        ring, sizes = strategy_of("ring", group, 2), []
        for before in (
            {}, asdict(Chosen("ring", 2, 12345)), asdict(Chosen("ring", 3, 12345)),
            asdict(Chosen("tree", 2, 12345)),
        ):  # fmt: skip
            sizes.append(chosen(AUTO, group, ring, 10**8, before).bucket_bytes)
        return sizes

    for sizes in run_as_threads(2, run):
        assert [size == 12345 for size in sizes] == [False, True, False, False]
    assert asked == ["ring"] * 6
