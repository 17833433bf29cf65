"""The loss of the same windows does not depend on how they are cut or padded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lightwork.tasks.extractive.loss import masked, span_loss
from lightwork.tasks.extractive.model import ScratchShape, build_model
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.tasks.made import Columns, example, examples, word_tokenizer

SHAPE = ScratchShape(layers=2, hidden=32, heads=2, intermediate=32, positions=64)
TASK = ExtractiveTask(
    pad_id=0,
    pad_left=False,
    uses_type_ids=True,
    answering=Answering(n_best=5, max_answer_tokens=8, no_answer=False),
)


@pytest.fixture(scope="module")
def twelve() -> Columns:
    """Twelve windows of different lengths, one of them half as heavy."""
    items = examples(
        *(
            example(str(n), "Which run?", " ".join(f"w{i}" for i in range(n)), f"w{n // 2}")
            for n in range(3, 27, 2)
        )
    )
    tokenizer = word_tokenizer(text for item in items for text in (item.question, item.context))
    windows = build_windows(items, tokenizer, WindowOptions(40, 4, 8), training=True)
    weight = windows.columns["weight"]
    assert isinstance(weight, np.ndarray)
    assert len(weight) == 12
    weight[3] = 0.5
    return Columns(windows)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(5)
    made = build_model("scratch", dropout=0.0, weights=True, scratch=SHAPE, vocabulary=64)
    return made.double()


def loss_and_gradient(
    model: nn.Module, rows: Columns, sizes: list[int], padded: list[int]
) -> tuple[Tensor, Tensor]:
    """The summed loss over micro-batches of these sizes, each padded to its own length."""
    model.zero_grad()
    total = torch.zeros(())
    cuts = np.split(np.arange(12), np.cumsum(sizes)[:-1])
    for windows, tokens in zip(cuts, padded, strict=True):
        batch = TASK.collate(rows, windows, tokens)
        loss = TASK.loss(TASK.forward(model, batch), batch)
        loss.backward()
        total = total + loss.detach()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return total, torch.cat(gradients).clone()


@pytest.mark.parametrize(
    ("sizes", "padded"), [([6, 6], [24, 40]), ([3, 4, 5], [64, 24, 32]), ([1] * 12, [32] * 12)]
)
def test_micro_batches_and_padding_do_not_change_the_loss(
    twelve: Columns, model: nn.Module, sizes: list[int], padded: list[int]
) -> None:
    whole, gradient = loss_and_gradient(model, twelve, [12], [32])
    cut, cut_gradient = loss_and_gradient(model, twelve, sizes, padded)
    assert cut == pytest.approx(float(whole), rel=1e-6)
    assert (cut_gradient - gradient).norm() <= 1e-6 * gradient.norm()


def made_batch() -> dict[str, Tensor]:
    allowed = torch.tensor([[True, False, True, True, False], [True, False, False, False, False]])
    return {
        "allowed": allowed,
        "start": torch.tensor([2, 0]),
        "end": torch.tensor([3, 0]),
        "weight": torch.tensor([1.0, 3.0]),
    }


def test_the_loss_is_a_weighted_sum_over_the_allowed_places() -> None:
    logits = torch.tensor([[0.0, 9.0, 1.0, 2.0, 9.0], [5.0, 9.0, 9.0, 9.0, 9.0]])
    normaliser = np.log(np.exp([0.0, 1.0, 2.0]).sum())
    expected = ((normaliser - 1) + (normaliser - 2)) / 2
    assert float(span_loss(logits, logits, made_batch())) == pytest.approx(expected, rel=1e-6)
    heavier = {**made_batch(), "weight": torch.tensor([2.0, 0.0])}
    assert float(span_loss(logits, logits, heavier)) == pytest.approx(2 * expected, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masking_fits_every_precision(dtype: torch.dtype) -> None:
    scores = torch.tensor(
        [[2.0, 1.0, 7.0], [0.0, 0.0, 0.0], [-30000.0, -30001.0, 5.0]], dtype=dtype
    ).requires_grad_()
    keep = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=torch.bool)
    shares = masked(scores, keep).softmax(dim=1)
    assert shares[0].tolist() == pytest.approx([0.7311, 0.2689, 0.0], abs=2e-3)
    assert shares.isfinite().all()
    assert shares[2, 2] == 0
    shares[1, 0].backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_loss_of_half_precision_logits_is_float32_and_finite(dtype: torch.dtype) -> None:
    logits = torch.full((2, 5), 300.0, dtype=dtype).requires_grad_()
    loss = span_loss(logits, logits, made_batch())
    assert loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(np.log(3), rel=1e-6)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad[~made_batch()["allowed"]] == 0).all()
