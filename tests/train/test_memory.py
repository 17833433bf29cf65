"""Too little memory on one rank: all cut smaller, repeat the step, and learn the same."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from lightwork.comm.group import Group
from lightwork.errors import StepError
from lightwork.telemetry.timing import StepClock
from lightwork.train import memory
from lightwork.train.loop import host_memory, private_bytes
from lightwork.train.memory import fit, is_out_of_memory, total_bytes
from lightwork.train.model import Model
from lightwork.train.step import Rules
from tests.ranks import run_as_threads
from tests.train.toy import INITIAL, ToyTask, summing, toy_run

CPU = torch.device("cpu")


def trained(
    group: Group, strategy: str, most_windows: int, entries: list[dict[str, Any]]
) -> tuple[list[float], list[float], int]:
    """Losses, weights and the micro-batch in the end; rank 1, or who is alone, has less memory."""
    task = ToyTask()
    if group.rank == min(1, group.size - 1):
        task.most_windows = most_windows
    rules = replace(Rules(), write_down=entries.append) if group.rank == 0 else Rules()
    stepper, loader, module = toy_run(group, summing(strategy, group), task, rules=rules)
    works = list(loader.work(1, 8))  # all cut before anything is known, as by a prefetch thread
    losses = [stepper.run(w.step, w, 0.05, StepClock(CPU)).loss for w in works]
    weights = [
        float(value) for tensor in module.parameters() for value in tensor.detach().flatten()
    ]
    return losses, weights, loader.cutting.micro_batch_tokens


@pytest.mark.parametrize("strategy", ["all_reduce", "tree"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_one_rank_without_memory_is_survived_by_all(
    strategy: str, ranks: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lightwork")
    entries: list[dict[str, Any]] = []
    plain = trained(Group.alone(), strategy, 1000, entries)
    assert not entries
    found = run_as_threads(ranks, lambda group: trained(group, strategy, 1, entries))
    for losses, weights, tokens in found:
        assert losses == pytest.approx(plain[0], rel=1e-9)
        assert weights == pytest.approx(plain[1], rel=1e-9, abs=1e-12)
        assert tokens < plain[2]
    assert len({tokens for _, _, tokens in found}) == 1
    assert {entry["changed"] for entry in entries} == {"micro_batch_tokens"}
    assert entries[0]["from"] == plain[2]
    assert entries[-1]["to"] == found[0][2]
    assert entries[0]["why"] == f"out of memory on rank {min(1, ranks - 1)}"
    assert f"instead of {plain[2]} (train.micro_batch_tokens)" in caplog.text


def test_a_window_that_does_not_fit_alone_stops_all() -> None:
    def message(group: Group) -> str:
        with pytest.raises(StepError) as caught:
            trained(group, "all_reduce", 0, [])
        return str(caught.value)

    found = run_as_threads(3, message)
    assert len(set(found)) == 1
    assert "rank 1: out of memory with a single window of" in found[0]
    assert "train.activation_checkpointing=true" in found[0]


def test_what_is_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"))
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))
    assert not is_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 20, 1000])
def test_as_many_windows_as_the_rank_with_least_memory_holds(most: int) -> None:
    def found(group: Group) -> int:
        task = ToyTask()
        task.most_windows = most if group.rank == 1 else 1000
        _, loader, module = toy_run(group, summing("all_reduce", group), task, shares=1)
        model = Model(module, module, task, CPU, lambda windows: [])
        fit(group, model, loader, None)
        assert all(parameter.grad is None for parameter in module.parameters())
        return loader.cutting.micro_batch_tokens

    first, second = run_as_threads(2, found)
    assert first == second
    length, batch = 32, 10  # the longest window has 26 tokens, padded to a multiple of 8
    assert first % length == 0
    assert min(most, batch) * 7 / 8 <= first // length <= min(most, batch)


def test_nothing_that_fits_and_a_model_that_fails_are_told_apart() -> None:
    def message(group: Group, most: int, problem: Exception | None) -> str:
        task = ToyTask()
        task.most_windows = most
        if problem is not None and group.rank == 1:
            task.poison = dict.fromkeys(range(37), problem)
        _, loader, _ = toy_run(group, summing("all_reduce", group), task)
        model = Model(INITIAL, INITIAL, task, CPU, lambda windows: [])
        with pytest.raises(StepError) as caught:
            fit(group, model, loader, None)
        return str(caught.value)

    found = run_as_threads(2, lambda group: message(group, 0, None))
    assert found[0] == found[1]
    assert "not even one window of 32 tokens fits in memory" in found[0]
    found = run_as_threads(2, lambda group: message(group, 1000, ValueError("bad shape")))
    assert set(found) == {"the model fails before the first step. rank 1: ValueError: bad shape"}


def test_beyond_the_top_nothing_is_tried() -> None:
    task = ToyTask()
    _, loader, module = toy_run(Group.alone(), summing("all_reduce", Group.alone()), task, 1)
    fit(Group.alone(), Model(module, module, task, CPU, lambda windows: []), loader, 100)
    assert loader.cutting.micro_batch_tokens == 96


def test_a_rank_has_its_part_of_what_the_machine_or_its_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (tmp_path / "none", tmp_path / "limit"))
    whole = psutil.virtual_memory().total
    assert total_bytes(CPU, 1) == whole
    (tmp_path / "limit").write_text("max\n")
    assert total_bytes(CPU, 2) == whole // 2
    (tmp_path / "limit").write_text("1000\n")
    assert total_bytes(CPU, 2) == 500


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells them apart")
def test_mapped_files_are_no_memory_of_this_process(tmp_path: Path) -> None:
    held_mib = 64
    (tmp_path / "file").write_bytes(os.urandom(held_mib << 20))
    before = private_bytes(host_memory())
    mapped = np.memmap(tmp_path / "file", np.uint8)
    assert int(mapped.sum()) > 0
    read = private_bytes(host_memory())
    own = np.ones(held_mib << 20, np.uint8)
    after = private_bytes(host_memory())
    assert before is not None
    assert read is not None
    assert after is not None
    assert read - before < (held_mib << 20) / 4
    assert after - read > (held_mib << 20) * 3 / 4
    del own
