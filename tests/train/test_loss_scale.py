"""What a loss is divided by: all that counts in the batch, over ranks and micro-batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.data.loader import Cutting, Loader
from lightwork.data.plan import assign
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.contract import Strategy
from lightwork.sync.tree import Tree
from lightwork.tasks.contract import Batch
from lightwork.telemetry.timing import StepClock
from lightwork.train.model import Model
from lightwork.train.optimizer import AdamWOptions, LocalUpdate
from lightwork.train.step import Outcome, Rules, Stepper
from tests.ranks import run_as_threads
from tests.train.toy import ToyTask

LENGTH = 16
OPTIONS = AdamWOptions(0.9, 0.999, 1e-8, 0.0, None)
MADE, MEAN = [[(2, 8.0), (3, 1.0)], [(5, 0.0), (0, 0.0)]], 0.9
"""(what counts, loss sum) of every micro-batch; one of them has nothing that counts."""


class Sums(nn.Module):
    """Its loss is the given sum times the one weight, so the gradient is the mean loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, sums: Tensor) -> Tensor:
        return self.weight * sums.sum()


class SumTask(ToyTask):
    """Window i has the i-th count and loss sum."""

    def __init__(self, counts: Sequence[float], sums: Sequence[float]) -> None:
        super().__init__()
        self.counts, self.sums = torch.tensor(counts), torch.tensor(sums, dtype=torch.float64)

    def collate(self, rows: Any, windows: NDArray[np.integer], padded_tokens: int) -> Batch:
        chosen = torch.from_numpy(windows.astype(np.int64))
        return {"sums": self.sums[chosen], "weight": self.counts[chosen]}

    def forward(self, model: nn.Module, batch: Batch) -> Any:
        return model(batch["sums"])

    def loss(self, outputs: Any, batch: Batch) -> Tensor:
        total: Tensor = outputs.sum()
        return total


def step(group: Group, task: SumTask, shares: int, strategy: str) -> tuple[Outcome, float, int]:
    """One update from all windows, each a micro-batch by itself; (outcome, gradient, pieces)."""
    module, count = Sums(), len(task.counts)
    how: Strategy = AllReduce(group)
    if strategy == "tree":
        how = Tree(group, assign(shares, group.size))
    sync = GradientBuckets(how, 1024)
    cutting = Cutting(1, count, shares, micro_batch_tokens=LENGTH, round_to=1)
    lengths = np.full(count, LENGTH, np.int32)
    weights = task.counts.numpy()
    hosted = assign(shares, group.size)[group.rank]
    loader = Loader(lengths, weights, cutting, hosted, lambda w, t: task.collate(None, w, t))
    model = Model(module, sync.attach(module), task, torch.device("cpu"), lambda windows: [])
    stepper = Stepper(group, model, sync, LocalUpdate(module, OPTIONS), loader, Rules())
    work = next(loader.work(1, 1))
    outcome = stepper.run(1, work, 0.0, StepClock(torch.device("cpu")))
    assert module.weight.grad is not None
    return outcome, float(module.weight.grad), len(work.pieces)


@pytest.mark.parametrize("strategy", ["all_reduce", "tree"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_gradient_is_that_of_the_mean_over_all_that_counts(ranks: int, strategy: str) -> None:
    check(MADE, MEAN, ranks, strategy)


@pytest.mark.shared
@pytest.mark.parametrize("strategy", ["all_reduce", "tree"])
def test_the_case_of_uneven_counts(shared: Path, strategy: str) -> None:
    case = shared / "cases" / "32-loss-normalisation"
    given, expect = (
        json.loads((case / name).read_text()) for name in ("input.json", "expect.json")
    )
    micro = [[(m["tokens"], m["loss_sum"]) for m in rank] for rank in given["micro"]]
    check(micro, expect["global_mean_loss"], given["world"], strategy)
    tail = expect["tail"]
    loader = Loader(
        np.full(tail["micro_batches_per_epoch"], LENGTH, np.int32),
        np.ones(tail["micro_batches_per_epoch"], np.float32),
        Cutting(1, tail["accumulation"], 1, LENGTH, 1), range(1), lambda windows, tokens: None,
    )  # fmt: skip
    assert loader.batches_per_epoch == tail["updates_per_epoch"]
    works = list(loader.work(1, 4))
    sizes = [len(work.pieces) for work in works]
    assert sizes == [tail["accumulation"], tail["micro_in_second_update"]] * 2
    assert [work.batch_weight for work in works] == sizes, "divided by its own size"


def check(micro: Any, mean: float, ranks: int, strategy: str) -> None:
    pairs = [pair for rank in micro for pair in rank]
    task = SumTask([count for count, _ in pairs], [loss for _, loss in pairs])
    found = run_as_threads(ranks, lambda group: step(group, task, 2, strategy))
    assert sum(pieces for _, _, pieces in found) == len(pairs)
    for outcome, gradient, _ in found:
        assert gradient == pytest.approx(mean, rel=1e-12)
        assert outcome.loss == pytest.approx(mean, rel=1e-12)
