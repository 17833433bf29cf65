"""The same small run on CUDA devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.runs.conftest import World

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
Losses = Callable[[Path], list[float]]


def test_one_gpu_learns_what_the_cpu_learns(world: World, losses: Losses) -> None:
    cpu = world.train(1, "gpu-cpu", "train.shares=2")
    gpu = world.train(1, "gpu-one", "train.shares=2", "launch.device=cuda")
    assert losses(gpu) == pytest.approx(losses(cpu), rel=1e-3)


@pytest.mark.parametrize("strategy", ["all_reduce", "ddp"])
def test_two_gpus_learn_what_one_learns(world: World, losses: Losses, strategy: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    one = world.train(1, f"gpu-{strategy}1", "train.shares=2", "launch.device=cuda")
    two = world.train(
        2, f"gpu-{strategy}2", "train.shares=2", "launch.device=cuda", f"sync.strategy={strategy}"
    )
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
