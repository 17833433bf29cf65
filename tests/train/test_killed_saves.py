"""Processes killed in the middle of saves: whenever it happens, a checkpoint verifies."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from lightwork.train.checkpoint import Checkpoints, Part, read_state, read_tensors
from lightwork.train.writer import HostCopies, Writer

pytestmark = pytest.mark.processes
START_S = 60.0
LONGEST_S = 0.25
"""Some ten saves."""


def model(step: int, folder: Path) -> None:
    for number in range(5):
        (folder / f"file{number}").write_bytes(bytes([step % 256]) * 200_000)


def made(copies: HostCopies, step: int) -> Sequence[Part]:
    weights = {f"w{number}": torch.full((50_000,), float(step)) for number in range(4)}
    return (
        Part("model", partial(model, step)),
        Part("optimizer", copies.take(weights)),
        Part("state", {"step": step}),
    )


def save_for_ever(folder: str) -> None:
    """Go on from the newest checkpoint, and save as fast as it goes; every third is the best."""
    checkpoints, copies = Checkpoints(Path(folder), "r"), HostCopies()
    writer = Writer(partial(checkpoints.save, keep=2))
    found = checkpoints.newest(print)
    step = read_state(found)["step"] if found else 0
    while True:
        step += 1
        writer.begin(step, made(copies, step))
        assert writer.wait() is None
        if step % 3 == 0:
            checkpoints.point_best(step)


def kill_one(folder: Path, after_s: float) -> int:
    """Let a process save and kill it; the step that is found afterwards."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lightwork.assembly", "transformers.models.bert.modeling_bert"])
    before = newest_step(folder)
    process = context.Process(target=save_for_ever, args=(str(folder),), daemon=True)
    process.start()
    deadline = time.monotonic() + START_S
    while newest_step(folder, verified=False) == before:
        assert process.is_alive()
        assert time.monotonic() < deadline, "nothing was saved"
        time.sleep(0.005)
    time.sleep(after_s)
    process.kill()
    process.join()
    return newest_step(folder)


def newest_step(folder: Path, verified: bool = True) -> int:
    """0 where there is none; CheckpointError where none verifies."""
    checkpoints = Checkpoints(folder, "r")
    if not verified:
        return max((step for step, _ in checkpoints.all()), default=0)
    found = checkpoints.newest(pytest.fail)
    if found is None:
        return 0
    step: int = read_state(found)["step"]
    tensors = read_tensors(found, "optimizer")
    assert all(bool((tensor == step).all()) for tensor in tensors.values())
    return step


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.long)])
def test_after_a_kill_a_checkpoint_verifies(tmp_path: Path, kills: int) -> None:
    draw = random.Random(kills)
    last, torn = 0, 0
    for _ in range(kills):
        found = kill_one(tmp_path, draw.uniform(0, LONGEST_S))
        assert found > last
        last = found
        torn += bool(list((tmp_path / "checkpoints").glob(".step-*")))
        best = Checkpoints(tmp_path).best()
        assert best is None or read_state(best)["step"] % 3 == 0
    assert torn, "no kill came in the middle of a save"
    checkpoints = Checkpoints(tmp_path, "r")
    checkpoints.save(last + 1, made(HostCopies(), last + 1), keep=2)
    assert not list((tmp_path / "checkpoints").glob(".step-*")), "torn ones are cleared away"
