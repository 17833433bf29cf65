"""A task small enough to check by hand: rows of numbers, a linear model, a squared error."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.data.loader import Cutting, Loader
from lightwork.data.plan import assign
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.contract import GradientSync
from lightwork.sync.tree import Tree
from lightwork.tasks.contract import Batch
from lightwork.train.model import Model
from lightwork.train.optimizer import AdamWOptions, LocalUpdate
from lightwork.train.precision import Name, Precision
from lightwork.train.step import Rules, Stepper

LENGTHS = (np.arange(37) * 5 % 23 + 4).astype(np.int32)
WEIGHTS = np.ones(37, np.float32)


class Toy(nn.Module):
    """Two layers; in double precision, so that sums in another order differ by 1e-15 only."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(3, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.out(torch.tanh(self.hidden(x)))
        return result


torch.manual_seed(11)
INITIAL = Toy().double()


class ToyTask:
    """Window i is the input (i, length, 1) with a target that only the padded places miss."""

    name = "toy"

    def __init__(self) -> None:
        self.poison: dict[int, float | Exception] = {}
        """Windows whose loss is this, or whose forward raises this."""
        self.most_windows = 1000
        """Of a micro-batch; there is no memory for more."""

    def touched_rows(self, rows: Any, windows: NDArray[np.integer]) -> torch.Tensor:
        raise AssertionError("there are no words")

    def collate(self, rows: Any, windows: NDArray[np.integer], padded_tokens: int) -> Batch:
        x = torch.tensor([[w / 37, LENGTHS[w] / 23, 1.0] for w in windows], dtype=torch.float64)
        return {
            "x": x.reshape(-1, 3),
            "weight": torch.from_numpy(WEIGHTS[windows]),
            "window": torch.from_numpy(windows.astype(np.int64)),
        }

    def forward(self, model: nn.Module, batch: Batch) -> Any:
        if len(batch["x"]) > self.most_windows:
            raise torch.OutOfMemoryError("no memory for so many")
        for window in batch["window"].tolist():
            problem = self.poison.get(window)
            if isinstance(problem, Exception):
                raise problem
        return model(batch["x"].to(next(model.parameters()).dtype))

    def loss(self, outputs: Any, batch: Batch) -> Tensor:
        losses = (outputs[:, 0] - (2 * batch["x"][:, 0] - 1)).square() * batch["weight"]
        for place, window in enumerate(batch["window"].tolist()):
            if isinstance(value := self.poison.get(window), float):
                losses = losses.index_fill(0, torch.tensor([place]), value)
        total: Tensor = losses.sum()
        return total

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        return []

    def candidates(self, outputs: Any, batch: Batch) -> list[Any]:
        return []

    def merge(self, candidates: Iterable[Any], rows: Any) -> dict[str, Any]:
        return {}

    def score(self, predictions: dict[str, Any], rows: Any) -> dict[str, float | int]:
        return {}

    def remark(self, predictions: dict[str, Any], scores: dict[str, float | int]) -> str:
        return ""

    def scored_as(self, rows: Any) -> str:
        return ""

    def example_ids(self, rows: Any, windows: Sequence[int]) -> list[str]:
        return [f"w{window}" for window in windows]

    def files(self, predictions: dict[str, Any]) -> dict[str, Any]:
        return {}


def summing(strategy: str, group: Group) -> GradientBuckets:
    """How the six shares of the toy run are summed."""
    if strategy == "tree":
        return GradientBuckets(Tree(group, assign(6, group.size)), 64)
    return GradientBuckets(AllReduce(group), 64)


def toy_run(
    group: Group,
    sync: GradientSync,
    task: ToyTask,
    shares: int = 6,
    rules: Rules | None = None,
    precision: Name = "fp32",
) -> tuple[Stepper, Loader, nn.Module]:
    """A stepper and a loader for one rank, all from the same weights."""
    module = copy.deepcopy(INITIAL)
    if precision != "fp32":
        module.float()
    model = Model(
        module=module,
        trained=sync.attach(module),
        task=task,
        device=torch.device("cpu"),
        example_ids=lambda windows: task.example_ids(None, windows),
        precision=Precision(precision),
    )
    update = LocalUpdate(module, AdamWOptions(0.9, 0.999, 1e-8, 0.01, 1.0))
    cutting = Cutting(seed=5, batch_size=10, shares=shares, micro_batch_tokens=60, round_to=8)

    def collate(windows: NDArray[np.int32], padded: int) -> Batch:
        return task.collate(None, windows, padded)

    loader = Loader(
        LENGTHS, WEIGHTS, cutting, assign(cutting.shares, group.size)[group.rank], collate
    )
    return Stepper(group, model, sync, update, loader, rules or Rules()), loader, module
