"""Batches of a run lie in page-locked memory where a GPU fetches them, and only there."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lightwork.assembly import ready
from lightwork.comm.group import Group
from lightwork.data.loader import Cutting, Loader, Prefetch
from lightwork.train.model import Model

CUTTING = Cutting(seed=1, batch_size=4, shares=2, micro_batch_tokens=64, round_to=8)


class Rows:
    def column(self, name: str) -> Any:
        return np.array([9, 16, 5, 12, 8], np.int32) if name == "tokens" else np.ones(5)


class Task:
    def collate(self, rows: Any, windows: Any, padded_tokens: int) -> dict[str, torch.Tensor]:
        return {
            "input_ids": torch.zeros(len(windows), padded_tokens, dtype=torch.int64),
            "weight": torch.ones(len(windows)),
        }


def loader(device: str) -> tuple[Loader, Model]:
    """The loader of a rank whose model is on ``device``, which may not be there."""
    prepared = SimpleNamespace(train=Rows())
    start: Any = SimpleNamespace(prepared=prepared, group=Group.alone(), shares=CUTTING.shares)
    task: Any = Task()
    module = torch.nn.Linear(1, 1)
    model = Model(module, module, task, torch.device(device), lambda _: [])
    return ready.make_loader(start, CUTTING, ready.collate_of(start, model)), model


@pytest.mark.parametrize(("device", "asked"), [("cuda", True), ("cuda:1", True), ("cpu", False)])
def test_memory_is_pinned_on_cuda_only(
    monkeypatch: pytest.MonkeyPatch, device: str, asked: bool
) -> None:
    threads: list[str] = []

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        threads.append(threading.current_thread().name)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    with Prefetch(loader(device)[0].work(1, 2)) as stream:
        works = list(stream)
    tensors = sum(len(piece.tensors) for work in works for piece in work.pieces)
    assert tensors == 2 * sum(len(work.pieces) for work in works) > 0
    assert threads == ["lightwork-prefetch"] * (tensors if asked else 0)


@pytest.mark.gpu
def test_a_gpu_gets_what_was_pinned() -> None:
    made, model = loader("cuda")
    with Prefetch(made.work(1, 2)) as stream:
        works = list(stream)
    for work in works:
        for piece in work.pieces:
            assert all(tensor.is_pinned() for tensor in piece.tensors.values())
            there = model.on_device(piece.tensors)
            for name, tensor in there.items():
                assert tensor.device.type == "cuda"
                assert torch.equal(tensor.cpu(), piece.tensors[name])
    assert not any(tensor.is_pinned() for tensor in Task().collate(None, [0], 8).values())
