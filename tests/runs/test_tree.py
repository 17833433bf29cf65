"""Whole runs with ``sync.strategy: tree``: one digest of the weights at any number of ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightwork.assembly.preparing import prepare
from lightwork.comm.world import usable_cores
from lightwork.data.plan import EpochPlan, cut
from lightwork.settings import load_settings
from lightwork.settings.run_folder import read_run
from tests.ranks import run_as_processes
from tests.runs.conftest import World
from tests.runs.conftest import weights_digest as digest

pytestmark = pytest.mark.processes
PLANTED = Path(__file__).with_name("planted.py")
SHARES, BATCH, MICRO_BATCH_TOKENS, MOST_NORM = 4, 16, 96, 0.5
TREE = (
    "sync.strategy=tree", f"train.shares={SHARES}", f"train.batch_size={BATCH}",
    f"train.micro_batch_tokens={MICRO_BATCH_TOKENS}", f"train.max_grad_norm={MOST_NORM}",
    "model.dropout=0.1", "model.scratch_width=128", "checkpoint.every_steps=1",
    "checkpoint.keep=20", "train.evaluate_every_steps=100", "data.max_length=96",
)  # fmt: skip
LAST = 8


def go_back(run: Path, step: int) -> None:
    """As if the run had been killed in the step after this one."""
    for folder in (run / "checkpoints").iterdir():
        if folder.name > f"step-{step:06d}":
            shutil.rmtree(folder)


def ledger(run: Path) -> list[dict[str, Any]]:
    path = run / "ledger.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def instead(*others: str) -> list[str]:
    """The settings of the runs here, some of them with other values."""
    names = [other.partition("=")[0] for other in others]
    return [*(given for given in TREE if given.partition("=")[0] not in names), *others]


def log(run: Path) -> str:
    return (run / "logs" / "rank0.log").read_text()


@pytest.fixture(scope="module")
def alone(world: World) -> Path:
    return world.train(1, "tree1", *TREE)


def test_the_runs_hold_what_could_go_wrong(world: World, alone: Path) -> None:
    """Several micro-batches in a share, lengths that differ, an empty share, and clipping."""
    lengths = prepare(load_settings(world.settings, list(TREE))).train.column("tokens")
    plan = EpochPlan(42, 0, lengths, BATCH)
    batches = [cut(windows, lengths[windows], SHARES, MICRO_BATCH_TOKENS, 1) for windows in plan]
    assert 2 * len(batches) == LAST
    assert not all(batches[-1])
    assert any(len(share) > 1 for share in batches[0])
    assert len(set(lengths.tolist())) >= 5
    lines = (alone / "metrics/rank0.jsonl").read_text().splitlines()
    assert max(json.loads(line)["grad_norm"] for line in lines) > MOST_NORM


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])  # 5 is more than there are shares
def test_the_weights_have_the_same_bits(world: World, alone: Path, ranks: int) -> None:
    run = world.train(ranks, f"tree{ranks}", *TREE)
    assert [digest(run, step) for step in (1, LAST)] == [digest(alone, step) for step in (1, LAST)]


def test_threads_are_chosen_alike_for_all_numbers_of_ranks(world: World) -> None:
    """One rank would get all cores otherwise, and more of them fewer."""
    runs = [world.train(n, f"tree-auto{n}", *TREE, "launch.threads=auto") for n in (1, 2)]
    threads = max(1, usable_cores() // SHARES)
    assert [read_run(run).threads for run in runs] == [threads, threads]
    states = [json.loads((run / "checkpoints/step-000008/state.json").read_text()) for run in runs]
    assert [state["fingerprint"]["threads"] for state in states] == [threads, threads]
    assert states[0]["fingerprint"] == states[1]["fingerprint"]
    assert digest(runs[0]) == digest(runs[1])


@pytest.mark.long
def test_the_launcher_gives_the_same_bits(world: World, alone: Path) -> None:
    run = world.folder / "launched"
    command = [sys.executable, "-m", "lightwork", "train", str(world.settings), *TREE]
    ended = subprocess.run(
        [*command, "--ranks", "3", "--run", str(run)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "every rank computes with 1 thread whatever their number" in ended.stderr
    assert digest(run) == digest(alone)


@pytest.mark.parametrize(
    ("ranks", "other"),
    [
        (3, "sync.strategy=all_reduce"),
        (1, "train.micro_batch_tokens=48"),
        (1, "sync.bucket_bytes=1KiB"),
    ],
)
def test_settings_that_bits_depend_on(world: World, alone: Path, ranks: int, other: str) -> None:
    run = world.train(ranks, f"tree-{other}", *instead(other))
    assert (digest(run) == digest(alone)) == ("bucket_bytes" in other)


@pytest.mark.parametrize(
    ("ranks", "mistake"),
    [(4, "sum_in_rank_order"), (2, "accumulate_shares_together"), (2, "draw_by_rank")],
)
def test_a_planted_mistake_changes_the_bits(
    world: World, alone: Path, ranks: int, mistake: str
) -> None:
    run = world.folder / mistake
    arguments = (str(world.settings), str(run), *TREE)
    run_as_processes(ranks, f"{PLANTED}:{mistake}", *arguments, timeout_s=120, join=False)
    assert digest(run) != digest(alone)


@pytest.mark.parametrize(("first", "second"), [(3, 2), (1, 4)])
def test_going_on_at_another_number_of_ranks_keeps_the_bits(
    world: World, alone: Path, first: int, second: int
) -> None:
    run = world.train(first, f"tree-resumed{first}{second}", *TREE)
    go_back(run, 5)  # in the middle of the second epoch
    world.train(second, run.name, *TREE)
    assert digest(run) == digest(alone)
    assert ledger(run) == []


def test_going_on_otherwise_is_said_and_written_down_once(world: World, alone: Path) -> None:
    run = world.folder / "tree-otherwise"
    shutil.copytree(alone, run, symlinks=True)
    go_back(run, LAST - 1)
    for _ in range(2):
        world.train(1, run.name, *TREE, "launch.threads=2")
    words = "from step 8 on the bits are no longer those of an unchanged run: threads 1 became 2\n"
    assert log(run).count(words) == 1
    assert ledger(run) == [{"step": 8, "changed": "threads", "from": 1, "to": 2}]
    assert digest(run) != digest(alone)


def test_leaving_the_tree_is_a_change_and_what_follows_is_none(world: World, alone: Path) -> None:
    run = world.folder / "tree-to-all-reduce"
    shutil.copytree(alone, run, symlinks=True)
    go_back(run, 5)
    plain = instead("sync.strategy=all_reduce")
    world.train(1, run.name, *plain)
    noted = ledger(run)
    assert {entry["step"] for entry in noted} == {6}
    assert {"step": 6, "changed": "strategy", "from": "tree", "to": "all_reduce"} in noted
    assert log(run).count("from step 6 on the bits are no longer those") == 1
    go_back(run, 7)
    world.train(1, run.name, *instead("sync.strategy=all_reduce", "train.micro_batch_tokens=48"))
    assert ledger(run) == noted
