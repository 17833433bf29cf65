"""Each thing that must stay for equal bits is planted otherwise, and seen in the digest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ranks import run_as_processes
from tests.runs.conftest import World
from tests.runs.test_tree import instead

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted_bits.py")
SHORT = (*instead("train.batch_size=14"), "train.max_steps=4")  # no power of two


def weights(run: Path) -> str:
    """SHA-256 of the weights in the last checkpoint."""
    path = run / "checkpoints/step-000004/model/model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def right(world: World) -> str:
    return weights(world.train(1, "bits", *SHORT))


def planted(world: World, what: str, ranks: int, *overrides: str) -> str:
    run = world.folder / f"bits-{what}{ranks}"
    arguments = (str(world.settings), str(run), *SHORT, *overrides)
    run_as_processes(ranks, f"{PLANTED}:{what}", *arguments, timeout_s=120, join=False)
    return weights(run)


@pytest.mark.parametrize(
    "what",
    [
        "other_company",
        "other_padding",
        "other_order",
        "scaled_after_backward",
        "norm_of_buckets",
        "optimizer_in_slices",
    ],
)
def test_what_must_stay_shows_where_it_does_not(world: World, right: str, what: str) -> None:
    assert planted(world, what, 1) != right


@pytest.mark.parametrize("setting", ["model.attention=eager", "train.precision=bf16"])
def test_settings_show(world: World, right: str, setting: str) -> None:
    assert weights(world.train(1, f"bits-{setting}", *SHORT, setting)) != right


def test_another_instruction_set_shows(world: World, right: str) -> None:
    run = world.folder / "bits-instructions"
    command = [sys.executable, "-m", "lightwork", "train", str(world.settings), *SHORT]
    subprocess.run(
        [*command, "--run", str(run)],
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        capture_output=True, timeout=300, check=True,
    )  # fmt: skip
    assert weights(run) != right


def test_what_is_left_out_is_decided_from_the_sum(world: World, right: str) -> None:
    """Whoever hosts the share: all leave the step out, and the bits are the same again."""
    skip = "train.on_nonfinite=skip"
    found = {planted(world, "overflow_in_share_0", ranks, skip) for ranks in (1, 2, 3)}
    assert len(found) == 1
    assert right not in found
    assert planted(world, "overflow_decided_alone", 2, skip) not in found
