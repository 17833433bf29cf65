"""A slip in a person's own loop is refused at once, in words that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from lightwork.api import Run
from lightwork.comm.group import Group
from lightwork.errors import StepError
from tests.api.loop import ROWS, adam, loss_of, net, run_of
from tests.sync.test_buckets import Net


def refusals() -> dict[str, tuple[Callable[[Run, Net], Any], type[Exception], str]]:
    loss = "the loss must be one number"
    return {
        "no count": (lambda run, model: run.backward(model(ROWS[0])), TypeError, "3 tokens on one"),
        "vector": (lambda run, model: run.backward(model(ROWS[0]).expand(2), 3), TypeError, loss),
        "number": (lambda run, model: run.backward(1.5, 3), TypeError, loss),
        "detached": (
            lambda run, model: run.backward(model(ROWS[0]).detach(), 3),
            TypeError,
            "torch.no_grad",
        ),
        "bad count": (lambda run, model: run.backward(model(ROWS[0]), "x"), TypeError, "count"),
        "negative": (lambda run, model: run.backward(model(ROWS[0]), -1), ValueError, "0 or more"),
        "nan": (
            lambda run, model: run.backward(model(ROWS[0]), torch.tensor(float("nan"))),
            ValueError,
            "finite",
        ),
        "nothing": (lambda run, model: run.backward(model(ROWS[0]), 0), StepError, "add up to 0"),
        "not finite": (
            lambda run, model: run.backward(model(ROWS[0]) * float("nan"), 1),
            StepError,
            "step 1 failed, nothing of it was applied. rank 0: the loss is nan",
        ),
        "step first": (lambda run, model: run.step(adam(model)), StepError, "no new gradients"),
        "own backward": (
            lambda run, model: model(ROWS[0]).backward(),
            StepError,
            "instead of loss.backward",
        ),
        "twice": (lambda run, model: run.replicate(net()), StepError, "called before"),
        "no module": (lambda run, model: run.replicate("bert"), TypeError, "torch.nn.Module"),
        "wrapped": (
            lambda run, model: run.replicate(nn.DataParallel(model)),
            TypeError,
            "the bare model",
        ),
        "frozen": (
            lambda run, model: run.replicate(nn.Linear(1, 1).requires_grad_(False)),
            TypeError,
            "no parameter that can be trained",
        ),
        "no list": (lambda run, model: run.gather({"a": 1}), TypeError, "takes a list"),
    }


@pytest.mark.parametrize("case", refusals())
def test_refused(case: str) -> None:
    action, kind, words = refusals()[case]
    run, model = run_of(Group.alone()), net()
    run.replicate(model)
    with pytest.raises(kind, match=words):
        action(run, model)
    loss_sum, count = loss_of(model, ROWS)
    wanted = float(loss_sum.detach() / count)
    assert run.backward(loss_sum, count) == pytest.approx(wanted), "the run must go on"


def test_nothing_can_be_trained_before_there_is_a_model() -> None:
    run = run_of(Group.alone())
    with pytest.raises(StepError, match=r"call run.replicate\(model\) first"):
        run.backward(torch.ones((), requires_grad=True), 1)


def test_two_batches_without_a_step_between_are_refused_unless_thrown_away() -> None:
    run, model = run_of(Group.alone()), net()
    run.replicate(model)
    optimizer = adam(model)
    run.backward(*loss_of(model, ROWS))
    with pytest.raises(StepError, match="last=False"):
        run.backward(*loss_of(model, ROWS))
    optimizer.zero_grad()
    run.backward(*loss_of(model, ROWS))
    run.step(optimizer)
    with pytest.raises(StepError, match="no new gradients"):
        run.step(optimizer)
    run.step(torch.optim.SGD(model.first.parameters(), lr=0.1))  # a second optimizer may
    run.backward(*loss_of(model, ROWS), last=False)
    with pytest.raises(StepError, match="no new gradients"):
        run.step(optimizer)


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    run, model = run_of(Group.alone()), net()
    run.replicate(model)
    run.backward(*loss_of(model, ROWS))
    other = nn.Linear(5, 7)
    with pytest.raises(StepError, match=r"2 parameters .* the first of shape \(7, 5\)"):
        run.step(torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1))


def test_freezing_after_replicate_is_refused() -> None:
    run, model = run_of(Group.alone()), net()
    run.replicate(model)
    model.first.requires_grad_(False)
    with pytest.raises(StepError, match=r"requires_grad of first.weight has changed .* \(2 param"):
        run.backward(*loss_of(model, ROWS))
