"""Whole runs with ``train.compile`` and the compiler that PyTorch chooses; most take minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torch._inductor.cpp_builder import get_cpp_compiler

from tests.ranks import run_as_processes
from tests.runs.conftest import PROGRAMS, World

pytestmark = [pytest.mark.processes, pytest.mark.long]
Losses = Callable[[Path], list[float]]
SHORT = ("train.shares=2", "train.max_steps=4")


@pytest.fixture
def _compiler() -> None:
    try:
        get_cpp_compiler()
    except Exception as error:  # noqa: BLE001 - whatever it lacks
        pytest.skip(f"PyTorch cannot compile for a CPU here: {error}")


def train(world: World, ranks: int, name: str, *overrides: str) -> Path:
    """Like ``World.train``, with time to compile."""
    run = world.folder / name
    arguments = (str(world.settings), str(run), *SHORT, *overrides)
    run_as_processes(ranks, f"{PROGRAMS}:train", *arguments, timeout_s=450, join=False)
    return run


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("strategy", ["all_reduce", "ddp"])
def test_losses_are_those_without_to_rounding(world: World, losses: Losses, strategy: str) -> None:
    plain = train(world, 1, f"eager-{strategy}")
    compiled = train(
        world, 2, f"compiled-{strategy}", "train.compile=true", f"sync.strategy={strategy}"
    )
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-5)
    assert "compiling the blocks" in (compiled / "logs/rank0.log").read_text()
    folders = [run / "checkpoints/step-000004/model" for run in (plain, compiled)]
    configs = [(folder / "config.json").read_text() for folder in folders]
    assert configs[0] == configs[1]


@pytest.mark.usefixtures("_compiler")
def test_its_random_numbers_do_not_depend_on_ranks_or_on_computing_again(
    world: World, losses: Losses
) -> None:
    settings = ("train.compile=true", "model.dropout=0.1")
    one = train(world, 1, "compiled-one", *settings)
    two = train(world, 2, "compiled-two", *settings, "train.activation_checkpointing=true")
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
    plain = train(world, 1, "without-dropout")
    assert losses(one) != pytest.approx(losses(plain), rel=1e-3), "nothing was drawn"


def test_without_a_compiler_there_is_one_line(world: World, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "lightwork", "train", str(world.settings), "train.compile=true",
         "--ranks", "2", "--run", str(tmp_path / "run"), "launch.restarts=0"],
        env={**os.environ, "CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=450, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if "no-such-compiler" in line]
    assert line.startswith("error: step 1 failed")
    assert "BertLayer cannot be compiled here (InvalidCxxCompiler: " in line
    assert "set train.compile=false" in line
    assert "Traceback" not in ended.stderr
