"""A model with two embedding tables, and steps of a replica of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from tests.api.loop import run_of

WORDS, PLACES, WIDTH = 60, 10, 4
REST = 8 * (WIDTH + 1)
"""Bytes of the gradients beside the tables."""


class Net(nn.Module):
    """Words and places are looked up; the head is small."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.places = nn.Embedding(PLACES, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, ids: Tensor) -> Tensor:
        where = torch.arange(len(ids))
        hidden = torch.tanh(self.words(ids) + self.places(input=where))
        result: Tensor = self.head(hidden).square().sum()
        return result


with torch.random.fork_rng():
    torch.manual_seed(2)
    NET = Net().double().eval()  # evaluating: ranks that are threads share one random state


class Trained:
    """A replicated model, and what its steps sent."""

    def __init__(self, group: Group, rows: str = "auto", model: nn.Module = NET) -> None:
        self.run = run_of(group, bucket_bytes=1 << 20, rows=rows)
        self.model: Any = self.run.replicate(copy.deepcopy(model))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, weight_decay=0.5)
        self.sent: list[int] = []
        sync = self.run._trained()._sync
        finish = sync.finish

        def noted() -> Any:
            result = finish()
            self.sent.append(result.sent_bytes)
            return result

        sync.finish = noted  # type: ignore[method-assign]

    def step(
        self, rows: list[list[int]], forward: Callable[[Tensor], Tensor] | None = None
    ) -> float:
        """One update, of which this rank computes its part; some have nothing."""
        mine = rows[self.run.rank :: self.run.ranks]
        forward = self.model if forward is None else forward
        losses = [forward(torch.tensor(ids)) for ids in mine]
        loss = sum(losses, torch.zeros((), requires_grad=True))
        mean = self.run.backward(loss, sum(len(ids) for ids in mine))
        self.run.step(self.optimizer)
        return mean

    def held(self) -> dict[str, Tensor]:
        """Weights and moments."""
        state = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        for name, p in self.model.named_parameters():
            for slot, value in self.optimizer.state[p].items():
                state[f"{name}/{slot}"] = value.clone()
        return state


def close(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-9, atol=1e-12, msg=name)


def whole_bytes() -> int:
    return 8 * WIDTH * (WORDS + PLACES) + REST


FEW = [[1, 2, 0], [7, 7]]  # four words at the places 0, 1 and 2
MANY = [list(range(WORDS))[part : part + PLACES] for part in range(0, WORDS, PLACES)]
