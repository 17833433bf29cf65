"""What ranks say they are at, read while they write, after they died, and when they hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lightwork.comm import phases
from lightwork.comm.phases import PATH, Phases, Slot, stack_path


@pytest.fixture
def file(tmp_path: Path) -> Phases:
    """Room for three ranks."""
    return Phases.made(tmp_path / "phases", 3)


def test_what_a_rank_says_is_read(file: Phases) -> None:
    slot, other = Slot(file.path, 2), Slot(file.path, 1)
    assert file.read(2) is None
    before_s = time.monotonic()
    slot.enter("data", 37)
    slot.work_on("q3, q7")
    slot.enter("forward")
    other.enter("prepare")
    found = file.read(2)
    assert found is not None
    assert (found.count, found.step, found.name, found.examples) == (2, 37, "forward", "q3, q7")
    assert before_s <= found.since_s <= time.monotonic()
    assert found.place == "in step 37 (forward)"
    assert file.read(0) is None
    early = file.read(1)
    assert early is not None
    assert (early.step, early.place) == (0, "before a step (prepare)")


def test_the_examples_of_one_step_are_not_those_of_the_next(file: Phases) -> None:
    slot = Slot(file.path, 0)
    slot.work_on("q1")
    slot.enter("backward")
    slot.enter("data", 2)
    found = file.read(0)
    assert found is not None
    assert found.examples == ""


def test_a_rank_that_waits_says_so_and_goes_on_afterwards(file: Phases) -> None:
    slot = Slot(file.path, 0)
    slot.enter("control", 4)
    inside = None
    with suppress(RuntimeError), slot.waiting():
        inside = file.read(0)
        raise RuntimeError("a lost peer")
    after = file.read(0)
    assert inside is not None
    assert after is not None
    assert (inside.waits, after.waits, inside.name, after.name) == (True, False, *["control"] * 2)
    assert after.count > inside.count


@pytest.mark.parametrize("written_bytes", [0, 1, 4, 5, 20, 37, 300, 511])
def test_half_a_record_is_never_read(file: Phases, written_bytes: int) -> None:
    """A writer that is stopped in the middle leaves what it said before."""
    slot = Slot(file.path, 1)
    for step in range(1, 8):  # the last words are said in either half
        slot.enter("forward", step)
        slot.work_on("q1, " * 110)
        slot.enter("forward")
    whole = file.path.read_bytes()
    slot.work_on("q2, " * 117)
    slot.enter("backward")
    torn = bytearray(whole)
    new = file.path.read_bytes()
    changed = next(i for i in range(len(new)) if new[i] != whole[i]) // 512 * 512
    torn[changed : changed + written_bytes] = new[changed : changed + written_bytes]
    with file.path.open("r+b") as memory:
        memory.write(torn)
    found = file.read(1)
    assert found is not None
    assert (found.step, found.name) == (7, "forward")


def test_reading_beside_a_writer(file: Phases) -> None:
    """Step and examples always belong together, however often they change meanwhile."""
    script = (
        "import sys, pathlib\n"
        "from lightwork.comm.phases import Slot\n"
        "slot = Slot(pathlib.Path(sys.argv[1]), 0)\n"
        "for step in range(1, 60000):\n"
        "    slot._step, slot._examples = step, str(step).encode() * 40\n"
        "    slot.enter('forward')\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(file.path)]) as writer:
        seen = set()
        while writer.poll() is None:
            found = file.read(0)
            if found is not None:
                assert found.examples == str(found.step) * 40
                seen.add(found.step)
    assert writer.returncode == 0
    assert len(seen) > 10


def test_long_texts_are_cut_between_letters(file: Phases) -> None:
    slot = Slot(file.path, 0)
    slot.work_on("é" * 400)
    slot.enter("a phase with a long name")
    found = file.read(0)
    assert found is not None
    assert set(found.examples) == {"é"}
    assert len(found.examples) == 234
    assert found.name == "a phase with a "


def test_only_the_thread_of_the_loop_is_heard(file: Phases) -> None:
    slot = Slot(file.path, 0)
    slot.enter("forward", 1)

    def elsewhere() -> None:
        slot.enter("save", 9)
        with slot.waiting():
            pass

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    found = file.read(0)
    assert found is not None
    assert (found.count, found.step, found.name) == (1, 1, "forward")


def test_where_no_supervisor_asks_nothing_is_written_or_computed() -> None:
    phases.open_slot({"RANK": "0"})
    phases.enter("forward", 1)
    phases.work_on(lambda: pytest.fail("nobody reads this"))
    with phases.waiting():
        pass
    assert phases._OPEN == []


@pytest.mark.processes
def test_a_rank_shows_its_examples_and_its_stack(tmp_path: Path) -> None:
    file = Phases.made(tmp_path / "phases", 2)
    script = (
        "import os, time\n"
        "from lightwork.comm import phases\n"
        "phases.open_slot(os.environ)\n"
        "phases.work_on(lambda: [f'q{n}' for n in range(6)])\n"
        "def stand_still():\n"
        "    phases.enter('forward', 5)\n"
        "    phases.work_on(lambda: [f'q{n}' for n in range(6)])\n"
        "    phases.enter('forward')\n"
        "    time.sleep(60)\n"
        "stand_still()\n"
    )
    environ = {**os.environ, PATH: str(file.path), "RANK": "1"}
    with subprocess.Popen([sys.executable, "-c", script], env=environ) as rank:
        try:
            deadline = time.monotonic() + 60
            while (found := file.read(1)) is None or not found.examples:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert found.examples == "q0, q1, q2, q3, q4 …"
            rank.send_signal(signal.SIGUSR2)
            while "stand_still" not in stack_path(file.path, 1).read_text():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert rank.poll() is None
        finally:
            rank.kill()
