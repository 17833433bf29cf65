"""AdamW on this rank: what decays, what is clipped, what is saved."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lightwork.errors import CheckpointError
from lightwork.train.optimizer import AdamWOptions, LocalUpdate

OPTIONS = AdamWOptions(0.9, 0.999, 1e-8, 0.5, max_grad_norm=1.0)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 1))


def backward(module: nn.Module, scale: float = 1.0) -> None:
    module.zero_grad()
    (module(torch.ones(2, 3) * torch.arange(1.0, 4.0)).sum() * scale).backward()


def test_biases_and_norms_do_not_decay_and_none_is_left_alone() -> None:
    module = model()
    update = LocalUpdate(module, OPTIONS)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    last = module.get_parameter("2.weight")
    last.grad = None
    assert update.measure() == 0.0
    update.apply(0.1, 0.0)
    assert update.updated() == {name for name, _ in module.named_parameters()} - {"2.weight"}
    for name, parameter in module.named_parameters():
        decays = name == "0.weight"
        factor = 1 - 0.1 * 0.5 if decays else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor, msg=name)


def test_the_norm_is_the_one_before_clipping() -> None:
    module = model()
    update = LocalUpdate(module, OPTIONS)
    backward(module, 1000)
    grads = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
    whole = float(torch.cat(grads).norm())
    norm = update.measure()
    update.apply(0.1, norm)
    assert norm == pytest.approx(whole)
    clipped = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
    assert norm > 100
    assert float(clipped.norm()) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(bad: float) -> None:
    module = model()
    update = LocalUpdate(module, OPTIONS)
    backward(module)
    gradient = module.get_parameter("0.weight").grad
    assert gradient is not None
    gradient[0, 0] = bad
    assert not math.isfinite(update.measure())


def test_a_scale_that_is_a_power_of_two_leaves_no_trace() -> None:
    one, two = model(), model()
    plain, scaled = LocalUpdate(one, OPTIONS), LocalUpdate(two, OPTIONS)
    backward(one)
    backward(two, 2.0**16)
    assert plain.measure() == scaled.measure(2.0**16)
    plain.apply(0.1, 2.0)
    scaled.apply(0.1, 2.0)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name


def test_state_travels_by_name_and_goes_on_exactly() -> None:
    one, two = model(), model()
    first, second = LocalUpdate(one, OPTIONS), LocalUpdate(two, OPTIONS)
    for _ in range(3):
        backward(one)
        first.apply(0.1, first.measure())
    two.load_state_dict(one.state_dict())
    second.load({name: tensor.clone() for name, tensor in first.parts().items()})
    assert "2.weight/exp_avg" in first.parts()
    for module, update in ((one, first), (two, second)):
        backward(module)
        update.apply(0.1, update.measure())
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name


def test_state_of_another_model_is_refused() -> None:
    update = LocalUpdate(model(), OPTIONS)
    with pytest.raises(CheckpointError, match="does not fit"):
        update.load({"9.weight/exp_avg": torch.zeros(3)})
    with pytest.raises(CheckpointError, match="does not fit"):
        update.load({"0.weight/exp_avg": torch.zeros(4, 4)})
