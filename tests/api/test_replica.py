"""A person's own loop learns the same on any number of ranks, and its slips are caught."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lightwork.api import Run
from lightwork.comm.group import Group
from lightwork.errors import LaunchError, StepError
from tests.api.loop import ROWS, loss_of, net, plain, run_of, shared
from tests.ranks import run_as_threads
from tests.sync.test_buckets import Net


def test_alone_it_is_the_plain_loop_to_the_last_bit() -> None:
    losses, weights = plain(epochs=3)
    mine, my_weights = shared(Group.alone(), epochs=3)
    assert losses == mine
    assert losses[-3:] != losses[:3]
    for name, tensor in weights.items():
        assert torch.equal(tensor, my_weights[name]), name


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_on_several_ranks_it_is_the_plain_loop_to_rounding(ranks: int) -> None:
    """The last batch has one row; counts per row differ; two layers are never used."""
    losses, weights = plain(epochs=3)
    for mine, my_weights in run_as_threads(ranks, lambda group: shared(group, 3)):
        assert mine == pytest.approx(losses, rel=1e-12)
        for name, tensor in weights.items():
            torch.testing.assert_close(my_weights[name], tensor, rtol=1e-9, atol=1e-12, msg=name)


def test_gradients_add_up_until_the_last_backward_of_a_batch() -> None:
    def train(group: Group) -> dict[str, Tensor | None]:
        run, model = run_of(group), net()
        run.replicate(model)
        parts = [ROWS[:1], ROWS[1:], [torch.tensor([5, 5])]]
        for number, rows in enumerate(parts[group.rank :: group.size]):
            last = number == len(parts[group.rank :: group.size]) - 1
            found = run.backward(*loss_of(model, rows), last=last)
            assert last != math.isnan(found), "NaN until the batch is whole"
        return {name: p.grad for name, p in model.named_parameters()}

    model = net()
    loss_sum, count = loss_of(model, [*ROWS, torch.tensor([5, 5])])
    (loss_sum / count).backward()
    for ranks in (1, 3):
        for gradients in run_as_threads(ranks, train):
            _check(gradients, model)


def _check(gradients: dict[str, Tensor | None], wanted: nn.Module) -> None:
    for name, parameter in wanted.named_parameters():
        mine = gradients[name]
        assert (mine is None) == (parameter.grad is None), name
        if mine is not None and parameter.grad is not None:
            torch.testing.assert_close(mine, parameter.grad, rtol=1e-12, atol=1e-12, msg=name)


def test_a_parameter_that_turns_up_late_on_one_rank_is_caught_up_with() -> None:
    def train(group: Group) -> list[dict[str, Tensor | None]]:
        run, model, seen = run_of(group), net(), []
        run.replicate(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for late in (False, True, True):
            mine = late and group.rank == group.size - 1
            run.backward(*loss_of(model, [ROWS[group.rank]], late=mine))
            run.step(optimizer)
            seen.append(
                {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
            )
        return seen

    for number, late in enumerate((False, True, True)):
        model = net()
        (first, one), (second, two) = loss_of(model, ROWS[:1]), loss_of(model, ROWS[1:], late=late)
        ((first + second) / (one + two)).backward()
        for seen in run_as_threads(2, train):
            _check(seen[number], model)


def test_a_filler_counts_as_nothing_even_if_its_loss_does() -> None:
    def train(group: Group) -> tuple[float, dict[str, Tensor | None]]:
        run, model = run_of(group), net()
        run.replicate(model)
        run._note_batch(group.rank == 1)
        loss, count = loss_of(model, ROWS)
        found = run.backward(loss * (float("inf") if group.rank == 1 else 1), count)
        return found, {name: p.grad for name, p in model.named_parameters()}

    model = net()
    loss_sum, count = loss_of(model, ROWS)
    (loss_sum / count).backward()
    for loss, gradients in run_as_threads(2, train):
        assert loss == pytest.approx(float(loss_sum.detach() / count), rel=1e-12)
        _check(gradients, model)


def test_ranks_start_with_the_weights_of_rank_0() -> None:
    def start(group: Group) -> Tensor:
        model = net()
        with torch.no_grad():
            model.first.weight += group.rank
        return run_of(group).replicate(model).first.weight.detach()

    for weight in run_as_threads(3, start):
        assert torch.equal(weight, net().first.weight)


def test_another_model_on_one_rank_is_refused_on_all() -> None:
    def start(group: Group) -> str:
        with pytest.raises(LaunchError) as caught:
            run_of(group).replicate(nn.Linear(2, 2 + group.rank))
        return str(caught.value)

    first, second = run_as_threads(2, start)
    assert first == second
    assert "rank 1 has built another model" in first


def together(action: Callable[[Group, Run, Net], None]) -> str:
    """The message with which a step fails, the same on both ranks; the next step must go well."""

    def fail(group: Group) -> str:
        run, model = run_of(group), net()
        run.replicate(model)
        with pytest.raises(StepError) as caught:
            action(group, run, model)
        for name, tensor in net().state_dict().items():
            assert torch.equal(model.state_dict()[name], tensor)
        loss_sum, count = loss_of(model, ROWS)
        wanted = float(loss_sum.detach() / count)
        assert run.backward(loss_sum, count) == pytest.approx(wanted)
        return str(caught.value)

    first, second = run_as_threads(2, fail, timeout_s=10)
    assert first == second
    return first


def test_a_loss_that_is_not_finite_on_one_rank_stops_all() -> None:
    def act(group: Group, run: Run, model: Net) -> None:
        loss_sum, count = loss_of(model, ROWS)
        run.backward(loss_sum * (float("nan") if group.rank == 1 else 1), count)

    message = together(act)
    assert message.count("rank ") == 1
    assert "rank 1: the loss is nan" in message


class _Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        raise ArithmeticError("bad kernel")


def _broken(loss: Tensor) -> Tensor:
    """The same loss, with a backward that fails."""
    broken: Tensor = _Broken.apply(loss)  # type: ignore[no-untyped-call]
    return broken


def test_a_backward_that_fails_on_one_rank_stops_all(caplog: pytest.LogCaptureFixture) -> None:
    def act(group: Group, run: Run, model: Net) -> None:
        loss_sum, count = loss_of(model, ROWS)
        loss_sum = _broken(loss_sum) if group.rank == 0 else loss_sum
        run.backward(loss_sum, count, last=False)
        run.backward(*loss_of(model, ROWS))

    with caplog.at_level(logging.ERROR, logger="lightwork"):
        message = together(act)
    assert "rank 0: ArithmeticError: bad kernel" in message
    assert "Traceback" in caplog.text


def test_alone_a_backward_that_fails_raises_what_it_raised() -> None:
    run, model = run_of(Group.alone()), net()
    run.replicate(model)
    loss_sum, count = loss_of(model, ROWS)
    with pytest.raises(ArithmeticError, match="bad kernel"):
        run.backward(_broken(loss_sum), count)


def test_gradients_taken_away_half_way_are_noticed() -> None:
    def act(group: Group, run: Run, model: Net) -> None:
        run.backward(*loss_of(model, ROWS), last=False)
        if group.rank == 1:
            model.zero_grad()
        run.backward(*loss_of(model, ROWS))

    assert "taken away between run.backward calls" in together(act)


def test_a_rank_may_count_nothing_if_another_does() -> None:
    def train(group: Group) -> float:
        run, model = run_of(group), net()
        run.replicate(model)
        loss_sum, count = loss_of(model, ROWS)
        return run.backward(loss_sum * group.rank, count * group.rank)

    loss_sum, count = loss_of(net(), ROWS)
    assert run_as_threads(2, train) == pytest.approx([float(loss_sum.detach() / count)] * 2)
