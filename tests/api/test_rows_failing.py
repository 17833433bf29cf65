"""Rows that were not seen, ranks that fail on the way, and tables that cannot travel by rows."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

import lightwork
from lightwork.api import Run
from lightwork.comm.group import Group
from lightwork.errors import LaunchError, PeerLostError, SettingsError, StepError
from tests.api.loop import run_of
from tests.api.tables import FEW, PLACES, REST, WIDTH, WORDS, Net, Trained, close, whole_bytes
from tests.ranks import run_as_threads

pytestmark = pytest.mark.usefixtures("small_tables_pay")


def penalised(trained: Trained, rank: int, sign: int = 1) -> Callable[[Tensor], Tensor]:
    """On one rank, and not seen from outside, a second use of the table."""

    def forward(ids: Tensor) -> Tensor:
        found: Tensor = trained.model(ids)
        if trained.run.rank == rank:
            found = found + sign * embedding(torch.tensor([40]), trained.model.words.weight).sum()
        return found

    return forward


def test_another_use_of_the_weight_is_found_and_from_then_on_all_of_it_travels(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def both(group: Group) -> list[int]:
        packed, whole = Trained(group), Trained(group, "off")
        for number in range(4):
            for trained in (packed, whole):
                trained.step(FEW, penalised(trained, rank=1) if number else None)
            close(packed.held(), whole.held())
        return packed.sent

    with caplog.at_level(logging.WARNING, logger="lightwork"):
        found = run_as_threads(2, both)
    rows = 8 * WIDTH * (4 + PLACES) + REST
    assert found == [[rows, rows, whole_bytes(), whole_bytes()]] * 2
    (said,) = [text for text in caplog.messages if "from here on" in text]
    assert said.startswith("all of words.weight is sent from here on: it got a gradient in rows")


def test_with_on_another_use_of_the_weight_fails_on_all_ranks_and_nobody_waits() -> None:
    def train(group: Group) -> str:
        trained = Trained(group, "on")
        trained.step(FEW)
        before = trained.held()
        with pytest.raises(StepError) as caught:
            trained.step(FEW, penalised(trained, rank=1, sign=-1))
        close(trained.held(), before)
        trained.step(FEW)
        return str(caught.value)

    first, second = run_as_threads(2, train, timeout_s=10)
    assert first == second
    assert "rank 1: words.weight cannot travel row by row" in first


def compiled(trained: Trained) -> Any:
    return torch.compile(trained.model, backend="eager", fullgraph=True)


def mapped(trained: Trained) -> Any:
    return lambda ids: torch.func.vmap(trained.model)(ids[None]).sum()


@pytest.mark.parametrize("way", [compiled, mapped])
def test_what_cannot_be_noted_is_found_in_the_gradient_and_not_lost(
    way: Callable[[Trained], Any],
) -> None:
    def both(group: Group) -> list[int]:
        packed, whole = Trained(group), Trained(group, "off")
        for _ in range(2):
            packed.step(FEW, way(packed))
            whole.step(FEW)
            close(packed.held(), whole.held())
        return packed.sent

    assert run_as_threads(2, both) == [[8 * WIDTH * PLACES + REST, whole_bytes()]] * 2


def test_ranks_that_go_different_ways_are_told_so() -> None:
    def train(group: Group) -> str:
        trained = Trained(group)
        trained.step(FEW)
        apart = partial(trained.step, FEW) if group.rank == 0 else partial(trained.run.gather, [])
        with pytest.raises(StepError) as caught:
            apart()
        return str(caught.value)

    first, second = run_as_threads(2, train, timeout_s=10)
    assert first == second
    assert first.startswith("the ranks have gone different ways: rank 0 is at run.backward")


def test_a_forward_that_fails_on_one_rank_leaves_nobody_waiting() -> None:
    def train(group: Group) -> str:
        trained = Trained(group)
        trained.step(FEW)
        try:
            trained.step([[1], [WORDS]])
        except IndexError:
            group.abort()  # as when the exception ends the process
            return "failed"
        except PeerLostError:
            return "told"
        return "went on"

    assert run_as_threads(2, train, timeout_s=20) == ["told", "failed"]


def test_a_backward_that_fails_on_one_rank_fails_on_all() -> None:
    def train(group: Group) -> str:
        trained = Trained(group)

        def broken(ids: Tensor) -> Tensor:
            found: Tensor = trained.model(ids)
            if group.rank == 1:
                found.register_hook(_fail)
            return found

        with pytest.raises(StepError) as caught:
            trained.step(FEW, broken)
        trained.step(FEW)
        return f"{caught.value} {trained.sent}"

    first, second = run_as_threads(2, train, timeout_s=10)
    assert first == second
    assert "rank 1: ArithmeticError: bad kernel" in first
    assert str([8 * WIDTH * (4 + PLACES) + REST] * 2) in first


def _fail(_: Tensor) -> None:
    raise ArithmeticError("bad kernel")


def tied() -> Net:
    model = Net()
    model.head = nn.Linear(WIDTH, WORDS, bias=False)
    model.head.weight = model.words.weight
    return model


class _Own(nn.Embedding):
    """One of a person's own."""


def other_table(table: nn.Embedding) -> Net:
    model = Net()
    model.words = table
    return model


REASONS = [
    (tied, "words.weight, cannot travel row by row, because its weight is also head.weight"),
    (lambda: other_table(nn.Embedding(99, 4, max_norm=1.0)), "max_norm changes its rows"),
    (lambda: other_table(nn.Embedding(99, 4, sparse=True)), "gradients of another kind"),
    (lambda: other_table(_Own(99, 4)), "it is a _Own"),
    (lambda: other_table(nn.Embedding(99, 4).requires_grad_(False)), "it does not learn"),
    (lambda: nn.Linear(2, 2), "the model has no torch.nn.Embedding"),
]


@pytest.mark.parametrize(("made", "reason"), REASONS)
def test_on_says_why_the_largest_table_cannot(made: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(SettingsError, match="got rows='on', but") as caught:
        run_of(Group.alone(), rows="on").replicate(made())
    assert reason in str(caught.value)
    run_of(Group.alone()).replicate(made())


def test_a_tied_table_travels_whole() -> None:
    assert run_as_threads(2, lambda group: _followed(run_of(group), tied())) == [[], []]


def test_a_module_in_two_places_is_one_table() -> None:
    model = Net()
    model.decoder = nn.ModuleDict({"words": model.words})
    found = run_as_threads(2, lambda group: _followed(run_of(group), copy.deepcopy(model)))
    assert found == [["words.weight"]] * 2


def _followed(run: Run, model: nn.Module) -> list[str]:
    run.replicate(model)
    return [table.name for table in run._trained()._lookups.tables]


def test_ranks_that_ask_for_different_rows_are_refused() -> None:
    def start(group: Group) -> str:
        with pytest.raises(LaunchError) as caught:
            Trained(group, "off" if group.rank else "auto")
        return str(caught.value)

    first, second = run_as_threads(2, start)
    assert first == second
    assert first.startswith("rank 1 would send rows of no table, and rank 0 of words.weight.")


def test_rows_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="rows is 'auto', 'on' or 'off', not 'always'"):
        lightwork.connect(rows="always")  # type: ignore[arg-type]
