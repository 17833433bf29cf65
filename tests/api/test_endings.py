"""When a rank of a person's own script fails, all end, and the reason is said once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FAILING = Path(__file__).with_name("failing.py")
LINE = 1 + FAILING.read_text().splitlines().index("    run.backward(loss, 3)")


def message(rank: int) -> str:
    """What is said when the loss of ``rank`` is not finite."""
    return (
        f"error: step 1 failed, nothing of it was applied. rank {rank}: the loss is nan, not a "
        f"finite number (failing.py, line {LINE})\n"
    )


pytestmark = pytest.mark.processes


def start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in ``folder``, without this project's tests in its environment."""
    environ = {name: value for name, value in os.environ.items() if "RANK" not in name}
    environ |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_an_error_of_a_step_is_one_line_with_its_place(tmp_path: Path) -> None:
    ended = start(tmp_path, str(FAILING), "nan")
    assert ended.returncode == 1
    assert ended.stderr == message(rank=0)


def test_an_error_of_all_ranks_is_shown_once(tmp_path: Path) -> None:
    ended = start(tmp_path, "-m", "lightwork", "launch", "--ranks", "2", str(FAILING), "nan")
    assert ended.returncode == 1
    assert ended.stderr == message(rank=1)


def test_a_rank_that_fails_in_its_own_code_ends_the_others(tmp_path: Path) -> None:
    ended = start(tmp_path, "-m", "lightwork", "launch", "--ranks", "2", str(FAILING), "raises")
    assert ended.returncode == 1
    assert ended.stderr.startswith("rank 1 of 2 ended with exit code 1; all ranks were stopped.\n")
    assert ended.stderr.endswith("  [rank1]: ZeroDivisionError: in the last rank's own code\n")
    assert ended.stderr.count("Traceback") == 1
    assert not (tmp_path / "survived").exists(), "it must not wait for its message"
    assert [path.name for path in tmp_path.glob("lightwork-logs-*/*")] == ["rank1.log"]
