"""The same small run on CUDA devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.ranks import run_as_processes
from tests.runs.conftest import World, fingerprint_of, weights_digest

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
PLANTED = Path(__file__).with_name("planted.py")
Losses = Callable[[Path], list[float]]


def test_one_gpu_learns_what_the_cpu_learns(world: World, losses: Losses) -> None:
    exact = ("train.shares=2", "train.deterministic=true")
    cpu = world.train(1, "gpu-cpu", *exact)
    gpu = world.train(1, "gpu-one", *exact, "launch.device=cuda")
    assert losses(gpu) == pytest.approx(losses(cpu), rel=1e-3)


@pytest.mark.parametrize("strategy", ["all_reduce", "ring", "tree", "ddp"])
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


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_what_float32_learns(
    world: World, losses: Losses, precision: str
) -> None:
    chosen = ("train.epochs=10", "launch.device=cuda", "train.evaluate_every_steps=1000")
    single = losses(world.train(1, "gpu-fp32", *chosen, "train.precision=fp32"))
    half = losses(world.train(1, f"gpu-{precision}", *chosen, f"train.precision={precision}"))
    assert sum(half[-7:]) == pytest.approx(sum(single[-7:]), rel=0.02)


def test_auto_is_bf16_where_the_gpu_has_it(world: World) -> None:
    run = world.train(1, "gpu-auto", "launch.device=cuda", "train.max_steps=2")
    has_it = torch.cuda.is_bf16_supported(including_emulation=False)
    assert fingerprint_of(run)["precision"] == ("bf16" if has_it else "fp32")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shares", [1, 2, 4, 8])
def test_the_tree_has_the_same_bits_again_for_shares_of_one_rank(
    world: World, shares: int, precision: str
) -> None:
    chosen = (
        "sync.strategy=tree", f"train.shares={shares}", f"train.precision={precision}",
        "model.dropout=0.1", "launch.device=cuda", "train.max_steps=4",
    )  # fmt: skip
    names = [f"gpu-tree-{precision}-{shares}-{number}" for number in (1, 2)]
    first, second = (weights_digest(world.train(1, name, *chosen)) for name in names)
    assert first == second


def test_memory_that_ends_is_survived(world: World, losses: Losses) -> None:
    """For real: the process may hold little more than the model and two of its windows."""
    chosen = ("launch.device=cuda", "train.precision=fp32", "train.deterministic=true")
    whole = ("train.micro_batch_tokens=100000", "data.max_length=48", "train.batch_size=40")
    plain = world.train(1, "gpu-memory", *chosen, *whole)
    run = world.folder / "gpu-little-memory"
    arguments = (str(world.settings), str(run), *chosen, *whole)
    run_as_processes(1, f"{PLANTED}:little_gpu_memory", *arguments, timeout_s=120, join=False)
    assert losses(run) == pytest.approx(losses(plain), rel=1e-3)
    assert "out of memory on rank 0, so it is repeated" in (run / "logs/rank0.log").read_text()
