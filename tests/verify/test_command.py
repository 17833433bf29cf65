"""The command as people start it, with every line that the page shows."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lightwork.verify.checking import ROWS
from tests.conftest import ROOT
from tests.runs.conftest import World
from tests.test_docs import commands

pytestmark = [pytest.mark.processes, pytest.mark.slow]
PAGE = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
TIMEOUT_S = 300
FAULT = """
import os
if "LIGHTWORK_PARENT_PID" in os.environ:  # a rank
    from lightwork.data import loader
    from lightwork.data.plan import EpochPlan
    loader.EpochPlan = lambda seed, epoch, *others: EpochPlan(seed, 0, *others)
"""


@pytest.fixture
def place(world: World, tmp_path: Path) -> Path:
    """A folder with settings, data, and an empty place for temporary files."""
    text = world.settings.read_text()
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def environment(place: Path, first_path: str = "") -> dict[str, str]:
    paths = [first_path, str(ROOT / "src")] if first_path else [str(ROOT / "src")]
    own = {"TMPDIR": str(place / "tmp"), "PYTHONPATH": os.pathsep.join(paths)}
    return {**os.environ, **own}


def run(words: list[str], place: Path, first_path: str = "") -> subprocess.CompletedProcess[str]:
    start = "torch.distributed.run" if words[0] == "torchrun" else "lightwork"
    return subprocess.run(
        [sys.executable, "-m", start, *words[1:]],
        cwd=place, env=environment(place, first_path), capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def left(place: Path) -> list[str]:
    """Folders of runs or of this command; torch and torchrun have temporary ones of their own."""
    found = [*(place / "tmp").glob("*lightwork*"), *place.glob("runs")]
    return [path.name for path in found]


FIRST, *OTHERS = commands(PAGE)
LINES = [FIRST, *(pytest.param(line, marks=pytest.mark.long) for line in OTHERS)]


def test_the_page_has_a_heading_for_every_row() -> None:
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert headings == list(ROWS)


@pytest.mark.parametrize("line", LINES)
def test_every_command_of_the_page(place: Path, line: str) -> None:
    ended = run(shlex.split(line), place)
    assert ended.returncode == 0, ended.stderr
    checked, *rest = ROWS if "tree" in line else ROWS[:-1]
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("2 ranks on cpu in fp32, sync.strategy ")
    for row in (checked, *rest):
        assert any(line.startswith(f"pass  {row} ") for line in lines), row
    assert lines[-1] == ("9 passed" if "tree" in line else "8 passed, 1 not checked")
    assert "Warning" not in ended.stderr
    assert left(place) == []


@pytest.mark.long
def test_the_sample_with_the_settings_that_are_shipped(place: Path) -> None:
    assert run(["lightwork", "sample", "demo"], place).returncode == 0
    settings = str(ROOT / "configs" / "demo.yaml")
    ended = run(["lightwork", "verify", settings, "data.cache=cache", "--ranks", "2"], place)
    assert ended.returncode == 0, ended.stderr
    assert "batches of 16 and 4 (instead of train.batch_size 32)" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "8 passed, 1 not checked"


def test_a_row_that_fails_is_an_exit_code_and_one_message(place: Path) -> None:
    (place / "sitecustomize.py").write_text(FAULT)
    ended = run(["lightwork", "verify", "mine.yaml", "--ranks", "2"], place, str(place))
    assert ended.returncode == 1
    assert "FAIL  shuffles                epochs 1 and 2 have the same order" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "7 passed, 1 failed, 1 not checked"
    assert ended.stderr.splitlines()[-1].startswith("error: 1 of 9 rows failed: shuffles. Do not")
    assert ended.stderr.count("error: ") == 1
    assert left(place) == []


@pytest.mark.long
def test_what_the_ranks_cannot_read_is_the_users_to_mend(place: Path) -> None:
    (place / "odd.json").write_text("{")
    ended = run(["lightwork", "verify", "mine.yaml", "data.train=odd.json", "--ranks", "2"], place)
    assert ended.returncode == 2
    assert "odd.json" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert left(place) == []


def test_control_c_leaves_nothing(place: Path) -> None:
    command = [sys.executable, "-m", "lightwork", "verify", "mine.yaml", "--ranks", "2"]
    process = subprocess.Popen(
        command, cwd=place, env=environment(place), stderr=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert any("this takes about a minute" in line for line in process.stderr)
        assert any(name.startswith("lightwork-verify-") for name in left(place))
        os.killpg(process.pid, signal.SIGINT)
        started_s = time.monotonic()
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "passed" not in out
    assert time.monotonic() - started_s < 30
    assert left(place) == []
