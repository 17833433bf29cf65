"""Of the tables in a person's own model only rows travel, and all is learned as without that."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lightwork.comm.group import Group
from lightwork.sync import rows as sync_rows
from tests.api.tables import (
    FEW,
    MANY,
    NET,
    PLACES,
    REST,
    WIDTH,
    WORDS,
    Net,
    Trained,
    close,
    whole_bytes,
)
from tests.ranks import run_as_threads

pytestmark = pytest.mark.usefixtures("small_tables_pay")


RARE = [51, 52, 53]
"""Looked up in the first step and never again: only moments and decay move them."""
BATCHES = [
    [[1, 2, 0], RARE],
    *([[1, 2 + step % 4], [9], [7, 7, 10 + step]] for step in range(11)),
]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_losses_weights_and_moments_are_those_of_the_whole_table(ranks: int) -> None:
    def both(group: Group) -> None:
        packed, whole = Trained(group), Trained(group, "off")
        for number, batch in enumerate(BATCHES):
            assert packed.step(batch) == pytest.approx(whole.step(batch), rel=1e-12)
            close(packed.held(), whole.held())
            if number == 0:
                first = whole.held()
        for name in ("words.weight", "words.weight/exp_avg"):
            assert not torch.equal(first[name][RARE], whole.held()[name][RARE]), "they go on moving"
        if group.size == 2:  # a + b in either order has the same bits
            for name, tensor in whole.held().items():
                assert torch.equal(packed.held()[name], tensor), name
        assert ranks == 1 or sum(packed.sent) < 0.5 * sum(whole.sent)

    run_as_threads(ranks, both)


def sent(rows: str, batch: list[list[int]]) -> int:
    def train(group: Group) -> int:
        trained = Trained(group, rows)
        trained.step(batch)
        return trained.sent[-1]

    first, second = run_as_threads(2, train)
    assert first == second
    return first


def test_what_travels_are_the_rows_that_any_rank_has_looked_up() -> None:
    assert sent("off", FEW) == whole_bytes()
    assert sent("auto", FEW) == 8 * WIDTH * (4 + PLACES) + REST, "places are too small to pay"
    assert sent("on", FEW) == 8 * WIDTH * (4 + 3) + REST
    assert sent("auto", MANY) == whole_bytes()
    assert sent("on", MANY) == whole_bytes(), "packed, and as many bytes"


def test_with_on_many_rows_are_packed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    unpack = sync_rows.TableSums._unpack

    def noted(sums: Any) -> None:
        copied.append(len(sums._rows))
        unpack(sums)

    monkeypatch.setattr(sync_rows.TableSums, "_unpack", noted)
    sent("auto", MANY)
    assert copied == []
    sent("on", MANY)
    assert sorted(copied) == [PLACES, PLACES, WORDS, WORDS]


def test_all_backward_calls_of_a_step_count_and_nothing_of_the_step_before() -> None:
    def train(group: Group) -> list[int]:
        trained = Trained(group)
        for ids in ([1, 2], [3]):
            for word in ids[:-1]:
                trained.run.backward(trained.model(torch.tensor([word])), 1, last=False)
            trained.run.backward(trained.model(torch.tensor(ids[-1:])), 1)
            trained.run.step(trained.optimizer)
        with torch.no_grad():
            trained.model(torch.arange(10))  # evaluation
        trained.step([[4], [4]])
        return trained.sent

    for found in run_as_threads(2, train):
        assert found == [8 * WIDTH * (k + PLACES) + REST for k in (2, 1, 1)]


def test_a_step_in_which_nobody_looks_anything_up() -> None:
    def train(group: Group) -> int:
        trained = Trained(group)
        trained.step(FEW)
        trained.run.backward(trained.model.head.weight.sum(), 1)
        assert not trained.model.words.weight.grad.any()
        return trained.sent[-1]

    assert run_as_threads(2, train) == [8 * WIDTH * PLACES + REST] * 2


def without_tables(trained: Trained, _: Tensor) -> Tensor:
    found: Tensor = trained.model.head.weight.square().sum()
    return found


def test_a_table_that_takes_no_part_at_first_is_caught_up_with() -> None:
    def both(group: Group) -> None:
        packed, whole = Trained(group), Trained(group, "off")
        for trained in (packed, whole):
            trained.step(FEW, partial(without_tables, trained))
            trained.step(FEW, partial(without_tables, trained))
            lookups = trained.run._trained()._lookups
            assert lookups._under_way is None, "what is told is heard, whatever takes part"
            for _ in range(3):
                trained.step(FEW)
        close(packed.held(), whole.held())
        assert packed.sent[-1] == 8 * WIDTH * (4 + PLACES) + REST

    run_as_threads(2, both)


@pytest.mark.parametrize("reentrant", [True, False])
def test_forward_passes_that_backward_repeats_change_nothing(reentrant: bool) -> None:
    class Saving(Net):
        def forward(self, ids: Tensor) -> Tensor:
            start = torch.zeros(1, requires_grad=True)
            inner = lambda ids, _: Net.forward(self, ids)  # noqa: E731
            found: Tensor = checkpoint(inner, ids, start, use_reentrant=reentrant)
            return found

    saving = Saving().double()
    saving.load_state_dict(NET.state_dict())

    def train(group: Group) -> list[int]:
        ours, theirs = Trained(group, "on", saving), Trained(group, "off")
        for ids in (FEW, [[3], [3, 4]]):
            ours.step(ids)
            theirs.step(ids)
        close(ours.held(), theirs.held())
        return ours.sent

    for found in run_as_threads(2, train):
        assert found == [8 * WIDTH * k + REST for k in (4 + 3, 2 + 2)]


def test_a_copied_or_pickled_model_works_and_notes_nothing() -> None:
    def train(group: Group) -> int:
        trained = Trained(group)
        for other in (
            copy.deepcopy(trained.model),
            pickle.loads(pickle.dumps(trained.model)),
        ):
            other.train()(torch.arange(10))
        trained.step(FEW)
        return trained.sent[-1]

    assert run_as_threads(2, train) == [8 * WIDTH * (4 + PLACES) + REST] * 2
