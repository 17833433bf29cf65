"""Blocks that are computed again in backward: the same bits, the same names, less memory."""

from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
import torch
from torch import nn

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.model import freeze
from lightwork.tasks.extractive.task import ExtractiveTask
from lightwork.train import blocks as module_under_test
from lightwork.train.blocks import change_blocks
from tests.tasks.families import FAMILIES, batch, family, logits
from tests.tasks.made import build

CPU = torch.device("cpu")


def recomputed(model: nn.Module) -> nn.Module:
    change_blocks(ExtractiveTask.blocks(model), recompute=True, compiled=False)
    return model


def pair(kind: str = "bert") -> tuple[nn.Module, nn.Module]:
    """The same model twice, in training with its dropout of 0.1; the second one recomputes."""
    torch.manual_seed(1)
    model = build("scratch") if kind == "scratch" else family(kind)
    model.config.use_cache = False
    return model.train(), recomputed(copy.deepcopy(model)).train()


def learn(model: nn.Module, device: torch.device = CPU) -> list[torch.Tensor]:
    """Two micro-batches as a step runs them; logits, and random numbers drawn after each."""
    found = []
    for seed in (7, 8):
        torch.manual_seed(seed)
        out = logits(model, {name: t.to(device) for name, t in batch(windows=seed - 4).items()})
        out.square().sum().backward()
        found += [out.detach(), torch.rand(3, device=device)]
    return found


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize("kind", FAMILIES)
def test_gradients_and_random_streams_have_the_same_bits(kind: str) -> None:
    plain, less = pair(kind)
    for one, other in zip(learn(plain), learn(less), strict=True):
        assert torch.equal(one, other)
    assert gradients(plain)
    assert same(gradients(plain), gradients(less))
    assert not torch.equal(logits(plain, batch()), logits(plain, batch())), "dropout draws"


@pytest.mark.parametrize("what", ["embeddings", "encoder"])
def test_frozen_parts_stay_frozen(what: Literal["embeddings", "encoder"]) -> None:
    plain, less = pair()
    for model in (plain, less):
        freeze(model, what)
        learn(model)
    assert len(gradients(less)) < sum(1 for _ in less.parameters())
    assert same(gradients(plain), gradients(less))


def test_mixed_precision_is_the_same_in_both_computations() -> None:
    plain, less = pair()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for model in (plain, less):
            torch.manual_seed(3)
            out = logits(model, batch())
            with torch.autocast("cpu", enabled=False):  # as backward runs outside of it
                out.float().square().sum().backward()
    assert same(gradients(plain), gradients(less))
    full, _ = pair()
    torch.manual_seed(3)
    logits(full, batch()).square().sum().backward()
    assert not same(gradients(full), gradients(plain)), "nothing was computed in bfloat16"


def test_only_what_goes_into_a_block_is_kept() -> None:
    def kept_bytes(model: nn.Module) -> int:
        own = {p.data_ptr() for p in model.parameters()}
        kept: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.data_ptr() not in own:
                kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits(model, batch(4, 40))
        return sum(kept.values())

    plain, less = pair()
    assert kept_bytes(less) < kept_bytes(plain) / 3


def count_calls(model: nn.Module) -> list[str]:
    calls: list[str] = []
    for name, module in model.named_modules():
        if name.endswith("intermediate.dense"):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    return calls


def test_blocks_are_computed_twice_in_training_and_once_elsewhere() -> None:
    _, less = pair()
    calls = count_calls(less)
    logits(less, batch()).sum().backward()
    assert len(calls) == 2 * 3
    names = list(dict.fromkeys(calls))
    assert calls == names + names[::-1]
    calls.clear()
    logits(less.eval(), batch()).sum().backward()
    assert len(calls) == 3
    calls.clear()
    with torch.inference_mode():
        logits(less.train(), batch())
    assert len(calls) == 3


def test_names_stay_and_a_copy_is_a_model_of_its_own() -> None:
    plain, less = pair("scratch")
    assert list(less.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in less.named_modules()] == [n for n, _ in plain.named_modules()]
    copied: Any = copy.deepcopy(less)
    with torch.no_grad():
        for parameter in less.parameters():
            parameter.zero_()
    learn(copied)
    learn(plain)
    assert same(gradients(copied), gradients(plain))
    assert not gradients(less)


@pytest.mark.parametrize(("recompute", "name"), [(True, "activation_checkpointing"),
                                                 (False, "compile")])  # fmt: skip
def test_a_model_without_blocks_is_refused(recompute: bool, name: str) -> None:
    no_blocks = ExtractiveTask.blocks(nn.Linear(2, 2))
    with pytest.raises(SettingsError) as caught:
        change_blocks(no_blocks, recompute, compiled=not recompute)
    assert str(caught.value) == (
        f"train.{name} is true, but no blocks are known of this kind of model; set "
        f"train.{name}=false"
    )
    change_blocks(no_blocks, recompute=False, compiled=False)


class Named(nn.Module):
    """A block that is given its tensors by name, as some are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, *, scale: float, hidden: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.layer(hidden), 0.5) * scale


def test_tensors_given_by_name_show_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def checkpoint(function: Any, *values: Any, **options: Any) -> Any:
        seen.extend(values)
        assert options == {"use_reentrant": False, "preserve_rng_state": True}
        return function(*values)

    monkeypatch.setattr(module_under_test, "checkpoint", checkpoint)
    block, hidden = Named(), torch.ones(2, 8)
    change_blocks([block], recompute=True, compiled=False)
    torch.manual_seed(0)
    given = block(hidden=hidden, scale=2.0)
    torch.manual_seed(0)
    assert torch.equal(given, Named.forward(block, hidden=hidden, scale=2.0))
    assert seen[0] is hidden
    assert seen[1] == 2.0


@pytest.mark.gpu
def test_random_numbers_of_a_gpu_are_drawn_again() -> None:
    device = torch.device("cuda")
    plain, less = (model.to(device) for model in pair())
    for one, other in zip(learn(plain, device), learn(less, device), strict=True):
        assert torch.equal(one, other)
    for name, gradient in gradients(plain).items():
        torch.testing.assert_close(gradients(less)[name], gradient, msg=name)
    block = Named().to(device)
    change_blocks([block], recompute=True, compiled=False)
    hidden = torch.ones(64, 8, device=device, requires_grad=True)
    out = block(hidden=hidden, scale=1.0)
    (gradient,) = torch.autograd.grad(out.sum(), hidden)
    rows = (out != 0).float() * 2 @ block.layer.weight
    torch.testing.assert_close(gradient, rows)
