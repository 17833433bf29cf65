"""The same small run on CUDA devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.runs.conftest import World, fingerprint_of, weights_digest

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
Losses = Callable[[Path], list[float]]


def test_one_gpu_learns_what_the_cpu_learns(world: World, losses: Losses) -> None:
    exact = ("train.shares=2", "train.deterministic=true")
    cpu = world.train(1, "gpu-cpu", *exact)
    gpu = world.train(1, "gpu-one", *exact, "launch.device=cuda")
    assert losses(gpu) == pytest.approx(losses(cpu), rel=1e-3)


@pytest.mark.parametrize("strategy", ["all_reduce", "ddp"])
def test_two_gpus_learn_what_one_learns(world: World, losses: Losses, strategy: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    exact = ("train.shares=2", "train.deterministic=true", "launch.device=cuda")
    one = world.train(1, f"gpu-{strategy}1", *exact)
    two = world.train(2, f"gpu-{strategy}2", *exact, f"sync.strategy={strategy}")
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)


def test_a_deterministic_run_has_the_same_bits_again(world: World) -> None:
    chosen = ("train.deterministic=true", "launch.device=cuda", "model.dropout=0.1")
    runs = [world.train(1, f"gpu-again{number}", *chosen) for number in (1, 2)]
    assert weights_digest(runs[0]) == weights_digest(runs[1])
    found = fingerprint_of(runs[0])
    assert found["deterministic"] is found["cudnn_deterministic"] is True
    assert found["cudnn_benchmark"] is False
    assert (found["matmul_precision"], found["cudnn_precision"]) == ("ieee", "ieee")
    assert found["environment"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_other_runs_multiply_in_tf32(world: World) -> None:
    found = fingerprint_of(world.train(1, "gpu-fast", "launch.device=cuda"))
    assert (found["deterministic"], found["matmul_precision"]) == (False, "tf32")
