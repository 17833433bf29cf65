"""Blocks that are compiled one by one; by a backend that makes the same graphs without a compiler.

``aot_eager`` splits forward and backward and fires gradient hooks as the default backend does, but
runs the operators of PyTorch, so nothing is rounded otherwise.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import lookup_backend
from torch._functorch._aot_autograd.utils import make_boxed_func

from lightwork.comm.group import Group
from lightwork.errors import SettingsError
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.tasks.extractive.task import ExtractiveTask
from lightwork.train.blocks import change_blocks
from tests.tasks.families import batch, family, logits

pytestmark = [
    pytest.mark.long,
    # PyTorch looks at the gradient of every tensor when it traces, and warns of that itself.
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
]
blocks = ExtractiveTask.blocks


@pytest.fixture(autouse=True)
def _compile_afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Counting:
    """The backend that runs PyTorch's own operators, and how many graphs it was given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return lookup_backend("aot_eager")(graph, inputs)


def pair(
    dropout: float = 0.0, recompute: bool = False, by: Any = None
) -> tuple[nn.Module, nn.Module, Counting]:
    """The same BERT of three layers twice, the second one compiled ``by`` the backend given."""
    torch.manual_seed(1)
    model = family("bert").train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        elif hasattr(module, "dropout_prob"):
            module.dropout_prob = dropout
    other, backend = copy.deepcopy(model), Counting()
    change_blocks(blocks(other), recompute, compiled=True, backend=by or backend)
    return model, other, backend


def learn(model: nn.Module, windows: int, tokens: int) -> torch.Tensor:
    torch.manual_seed(windows)
    out = logits(model, batch(windows, tokens))
    out.square().sum().backward()
    return out.detach()


def test_all_lengths_and_numbers_of_windows_share_a_few_graphs() -> None:
    model, other, backend = pair()
    shapes = [(windows, tokens) for windows in (2, 1, 5, 8) for tokens in (9, 16, 23, 40, 61)]
    for windows, tokens in shapes:
        torch.testing.assert_close(learn(other, windows, tokens), learn(model, windows, tokens))
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        if one.grad is not None:
            assert two.grad is not None
            torch.testing.assert_close(two.grad, one.grad, msg=name)
    # One for single windows and one for more, whatever their lengths and however many layers.
    assert backend.graphs <= 3


def test_an_evaluation_is_not_compiled() -> None:
    model, other, backend = pair()
    with torch.inference_mode():
        assert torch.equal(logits(other, batch()), logits(model, batch()))
    assert torch.equal(logits(other.eval(), batch()), logits(model.eval(), batch()))
    assert backend.graphs == 0
    assert list(other.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_are_ready_block_by_block(recompute: bool) -> None:
    """Buckets of the last block set out before the first block's backward has begun."""
    events: list[str] = []
    _, model, _ = pair(0.1, recompute, telling(events))
    for number, block in enumerate(blocks(model)):
        for parameter in block.parameters():
            parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: events.append(f"gradient {number}")
            )
    sync = GradientBuckets(Told(events), 4096)
    sync.attach(model)
    for _ in range(2):  # the real order of the gradients is known from the second step on
        events.clear()
        sync.begin(measure=False)
        with sync.micro_batch(0, last=True):
            learn(model, 3, 20)
        sync.finish()
        sync.settle(Group.alone())
    runs = [place for place, event in enumerate(events) if event == "backward"]
    assert len(runs) == 3, "one for each block"
    before, after = events[: runs[-1]], events[runs[-1] :]
    counts = [sum(1 for _ in block.parameters()) for block in blocks(model)]
    assert [before.count(f"gradient {number}") for number in range(3)] == [0, *counts[1:]]
    assert after.count("gradient 0") == counts[0]
    assert before.count("bucket") >= 3


def telling(events: list[str]) -> Any:
    """A backend whose compiled backward tells that it begins."""

    def backward(graph: Any, _: Any) -> Any:
        def run(*args: Any) -> Any:
            events.append("backward")
            return graph(*args)

        return make_boxed_func(run)

    return aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph), bw_compiler=backward)


class Told(AllReduce):
    """Sums that tell when they set out."""

    def __init__(self, events: list[str]) -> None:
        super().__init__(Group.alone())
        self.events = events

    def open(self, flat: torch.Tensor) -> Any:
        sums = super().open(flat)
        start = sums.start

        def told() -> Any:
            self.events.append("bucket")
            return start()

        sums.start = told  # type: ignore[method-assign]
        return sums


def test_computed_again_they_draw_the_same_random_numbers() -> None:
    _, once, _ = pair(0.1)
    _, again, _ = pair(0.1, recompute=True)
    for windows, tokens in ((3, 20), (2, 33)):
        assert torch.equal(learn(once, windows, tokens), learn(again, windows, tokens))
    for one, two in zip(once.parameters(), again.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None)
        assert one.grad is None or two.grad is None or torch.equal(one.grad, two.grad)


def test_what_cannot_be_compiled_is_one_line() -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise OSError("cannot write\nmore of it")

    model = family("bert").train()
    change_blocks(blocks(model), recompute=False, compiled=True, backend=broken)
    with pytest.raises(SettingsError) as caught:
        learn(model, 2, 16)
    assert str(caught.value) == (
        "train.compile: BertLayer cannot be compiled here (OSError: cannot write). PyTorch needs "
        "a C++ compiler such as g++ for it, on a GPU also Triton; or set train.compile=false"
    )


def test_a_mistake_of_the_block_itself_stays_what_it_is() -> None:
    model = family("bert").train()
    change_blocks(blocks(model), recompute=False, compiled=True, backend=Counting())
    learn(model, 2, 16)
    blocks(model)[1].register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(OSError("ours")))
    with pytest.raises(OSError, match="ours"):
        learn(model, 2, 16)
