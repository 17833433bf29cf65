"""A Run among ranks that are processes: each has its own random state."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import lightwork
from lightwork.errors import LaunchError
from tests.conftest import ROOT
from tests.ranks import run_as_processes

PROGRAMS = Path(__file__).with_name("programs.py")


@pytest.fixture(scope="module")
def facts() -> list[dict[str, Any]]:
    """Of two ranks."""
    return run_as_processes(2, f"{PROGRAMS}:facts", join=False)


pytestmark = pytest.mark.processes


def test_all_begin_with_the_head_of_rank_0(facts: list[dict[str, Any]]) -> None:
    first, second = facts
    assert first["before"] != second["before"]
    assert first["before"] == first["after"] == second["after"]


def test_ranks_draw_apart_and_rank_0_what_it_would_alone(facts: list[dict[str, Any]]) -> None:
    first, second = facts
    torch.manual_seed(3)
    assert first["first_draw"] == torch.rand(3).tolist()
    assert first["first_draw"] != second["first_draw"]
    assert first["masks"][0] != second["masks"][0]


def test_seeding_in_the_loop_is_told_once_and_undone(facts: list[dict[str, Any]]) -> None:
    first, second = facts
    assert first["warned"] == [0, 1, 1], "once, after the first seed in the loop"
    assert second["warned"] == [0, 0, 0], "rank 0 speaks for all"
    assert first["masks"][1] != second["masks"][1]
    assert first["masks"][2] != second["masks"][2]
    assert first["seed"] == second["seed"] == 8, "a model that evaluates drops nothing"


def test_gather_and_place(facts: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(facts):
        assert found["gathered"] == [{"rank": 1}]
        assert found["place"] == [rank, 2, rank == 0, "cpu"]
        assert "called before in this process" in found["again"]


def test_a_save_that_fails_on_rank_0_fails_on_all(tmp_path: Path) -> None:
    first, second = run_as_processes(2, f"{PROGRAMS}:save_fails", str(tmp_path), join=False)
    assert first == second
    assert first.startswith(f"cannot save {tmp_path}/file/out (")


def test_alone_a_run_can_be_closed_and_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    hook, threads = sys.excepthook, torch.get_num_threads()
    for _ in range(2):
        run = lightwork.connect()
        assert (run.rank, run.ranks, run.is_first) == (0, 1, True)
        assert torch.get_num_threads() == threads
        assert sys.excepthook != hook
        run.close()
        assert sys.excepthook is hook
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        lightwork.conect  # noqa: B018


def test_what_a_rank_starts_is_not_that_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # connect changes it
    monkeypatch.setenv("LIGHTWORK_CONNECTED_PID", "1 abc")
    monkeypatch.setenv("LIGHTWORK_RUN_ID", "abc")
    with pytest.raises(LaunchError, match="the rank with the id 1 started"):
        lightwork.connect()
    monkeypatch.setenv("LIGHTWORK_RUN_ID", "another")
    monkeypatch.setenv("RANK", "x")
    with pytest.raises(LaunchError, match="WORLD_SIZE not set"):
        lightwork.connect()


def test_importing_the_package_imports_no_torch() -> None:
    code = (
        "import sys, lightwork\n"
        "assert 'torch' not in sys.modules\n"
        "print(all(getattr(lightwork, name).__name__ == name for name in lightwork.__all__))"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
