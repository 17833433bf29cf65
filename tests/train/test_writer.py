"""Checkpoints written beside training: the same bytes, one at a time, and no failure is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lightwork.comm.group import Group
from lightwork.disk import Storage
from lightwork.errors import CheckpointError
from lightwork.train.calendar import Calendar
from lightwork.train.checkpoint import Checkpoints, Part, read_tensors
from lightwork.train.control import NO_WISHES, Wishes
from lightwork.train.duties import Duties, State, Sums
from lightwork.train.evaluate import Evaluation
from lightwork.train.scores import Best, Scores
from lightwork.train.writer import HostCopies, Writer
from tests.ranks import run_as_threads
from tests.train.test_checkpoint import parts

WAIT_S = 20.0
"""Much more than anything here takes; so long a test that hangs would take."""


class Gate(Storage):
    """Goes no further than the first folder until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()

    def make_folder(self, path: Path) -> None:
        self.reached.set()
        assert self.opened.wait(WAIT_S)
        super().make_folder(path)


class Full(Storage):
    """A disk without room for files from ``allowed`` on."""

    def __init__(self, allowed: int = 0) -> None:
        self._left = allowed

    def write(self, path: Path, content: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            path.write_bytes(content[:5])
            raise OSError(28, "No space left on device")
        super().write(path, content)


def copying(weights: Tensor) -> Callable[[int, Sums, Best | None], Iterable[Part]]:
    copies = HostCopies()

    def copied(step: int, sums: Sums, best: Best | None) -> Iterable[Part]:
        state = {"step": step, "best": best and [best.step, best.score]}
        return [Part("w", copies.take({"w": weights})), Part("state", state)]

    return copied


def duties(
    run: Path, storage: Storage, weights: Tensor, group: Group | None = None,
    scores: dict[int, float] | None = None,
) -> Duties:  # fmt: skip
    """A checkpoint every step of 100; ``scores``: those of the steps that are evaluated."""
    calendar = Calendar(100, 1, None, 1, 1, None)
    given = iter((scores or {}).values())

    def evaluate() -> Evaluation:
        return Evaluation({"f1": next(given)}, {})

    state = State(copying(weights), lambda step: {})
    checkpoints = Checkpoints(run, "r", storage)
    evaluating = evaluate if scores else None
    return Duties(group or Group.alone(), calendar, checkpoints, state, evaluating, Scores(run))


def test_training_goes_on_and_the_checkpoint_is_of_its_step(tmp_path: Path) -> None:
    weights, gate = torch.zeros(1000), Gate()
    (tmp_path / "checkpoints").mkdir()
    with duties(tmp_path, gate, weights) as mine:
        mine.after(1, NO_WISHES)
        assert gate.reached.wait(WAIT_S)
        weights.add_(1)  # the next step
        assert Checkpoints(tmp_path).all() == []
        gate.opened.set()
        mine.after(2, NO_WISHES)
    (newest,) = Checkpoints(tmp_path).all()
    assert newest[0] == 2
    assert torch.equal(read_tensors(newest[1], "w")["w"], weights)


def test_a_copy_never_changes_until_it_is_written(tmp_path: Path) -> None:
    weights, gate = torch.zeros(1000), Gate()
    (tmp_path / "checkpoints").mkdir()
    with duties(tmp_path, gate, weights) as mine:
        mine.after(1, NO_WISHES)
        weights.add_(1)
        gate.opened.set()
    (newest,) = Checkpoints(tmp_path).all()
    assert not read_tensors(newest[1], "w")["w"].any()


def test_a_second_checkpoint_waits_for_the_first() -> None:
    order: list[str] = []
    go_on = threading.Event()

    def save(step: int, parts: Iterable[Part]) -> None:
        order.append(f"begin {step}")
        if step == 1:
            assert go_on.wait(WAIT_S)
        order.append(f"end {step}")

    writer = Writer(save)
    writer.begin(1, [])
    assert writer.writing
    with pytest.raises(AssertionError):
        writer.begin(2, [])
    go_on.set()
    assert writer.wait() is None
    writer.begin(2, [])
    assert writer.wait() is None
    assert order == ["begin 1", "end 1", "begin 2", "end 2"]


def test_copies_are_equal_reuse_their_memory_and_keep_ties() -> None:
    tied = torch.arange(6.0).view(2, 3)
    tensors = {"a": tied, "b": tied, "t": tied.T, "n": torch.tensor(3), "e": torch.empty(0)}
    copies = HostCopies()
    first = copies.take(tensors)
    places = {name: copy.data_ptr() for name, copy in first.items()}
    tied.add_(1)
    second = copies.take(tensors)
    assert {name: copy.data_ptr() for name, copy in second.items()} == places
    for name, tensor in tensors.items():
        assert torch.equal(second[name], tensor)
        assert second[name].is_contiguous()
    assert second["a"].data_ptr() == second["b"].data_ptr() != second["t"].data_ptr()
    apart = copies.take({**tensors, "a": tied + 1})
    assert torch.equal(apart["a"], tied + 1)
    assert torch.equal(apart["b"], tied)
    smaller = copies.take({"a": tied[:1].double()})
    assert torch.equal(smaller["a"], tied[:1].double())


@pytest.mark.gpu
def test_copies_of_what_a_gpu_holds() -> None:
    tensors = {"a": torch.randn(1000, 1000, device="cuda"), "n": torch.tensor(3)}
    copies = HostCopies()
    for _ in range(3):
        taken = copies.take(tensors)
        wanted = tensors["a"].clone()
        tensors["a"].add_(1)  # in the same stream, right behind the copy
        assert taken["a"].device.type == "cpu"
        assert taken["a"].is_pinned()
        assert torch.equal(taken["a"], wanted.cpu())


def test_a_full_disk_is_told_to_all_ranks_after_the_next_step(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "r").write(1, parts(1))

    def trained(group: Group) -> tuple[str, int]:
        failing = duties(tmp_path, Full(), torch.zeros(3), group)
        failing._calendar = Calendar(100, 1000, None, None, 1, None)
        steps = [2]

        def train() -> None:
            with failing:
                failing.after(2, Wishes(save=True))
                while steps[-1] < 100:
                    steps.append(steps[-1] + 1)
                    if group.rank == 0:
                        failing._writer._thread.join()  # type: ignore[union-attr]
                    # as the message of a step does
                    wishes = group.gather_json(failing.wishes().save)
                    failing.after(steps[-1], Wishes(save=any(wishes)))

        with pytest.raises(CheckpointError) as caught:
            train()
        return str(caught.value), steps[-1]

    found = run_as_threads(3, trained)
    assert len(set(found)) == 1
    text, step = found[0]
    assert step == 3
    assert "cannot write the checkpoint" in text
    assert "step-000002 (No space left on device); older ones are untouched" in text
    assert [number for number, _ in Checkpoints(tmp_path).all()] == [1]
    assert not list((tmp_path / "checkpoints").glob(".*")), "what was half-written takes no room"


def three_steps(mine: Duties) -> None:
    with mine:
        for step in range(1, 4):
            mine.after(step, NO_WISHES)


@pytest.mark.parametrize("allowed", range(4))
def test_a_failure_at_the_end_or_before_an_evaluation_is_told_too(
    tmp_path: Path, allowed: int
) -> None:
    def trained(group: Group, scores: dict[int, float]) -> str:
        run = tmp_path / f"{len(scores)}"
        run.mkdir(exist_ok=True)
        mine = duties(run, Full(allowed), torch.zeros(3), group, scores)
        with pytest.raises(CheckpointError) as caught:
            three_steps(mine)
        return str(caught.value)

    for scores in ({}, {1: 1.0, 2: 2.0, 3: 3.0}):
        texts = run_as_threads(2, lambda group: trained(group, scores))  # noqa: B023
        assert len(set(texts)) == 1
        assert f"step-{allowed // 2 + 1:06d} (No space left" in texts[0]
        best = Checkpoints(tmp_path / f"{len(scores)}").best()
        if scores and allowed >= 2:
            assert best is not None
            assert best.name == "step-000001", "only what is written is pointed to"
        else:
            assert best is None


def test_what_is_no_failure_of_the_disk_is_told_with_its_kind(tmp_path: Path) -> None:
    def broken(step: int, parts: Iterable[Part]) -> None:
        raise RuntimeError("a mistake")

    writer = Writer(broken)
    writer.begin(7, [])
    problem = writer.wait()
    assert problem is not None
    assert "step 7 failed unexpectedly (RuntimeError: a mistake)" in problem
    assert writer.wait() is None, "it is told once"


def test_an_error_of_training_waits_for_the_checkpoint(tmp_path: Path) -> None:
    gate = Gate()
    (tmp_path / "checkpoints").mkdir()
    threading.Timer(0.2, gate.opened.set).start()

    def train() -> None:
        with duties(tmp_path, gate, torch.zeros(3)) as mine:
            mine.after(1, NO_WISHES)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert [step for step, _ in Checkpoints(tmp_path).all()] == [1]


def test_the_best_so_far_is_in_the_checkpoint(tmp_path: Path) -> None:
    scores = {1: 5.0, 2: 7.0, 3: 7.0, 4: 1.0}
    with duties(tmp_path, Storage(), torch.zeros(3), None, scores) as mine:
        for step in scores:
            mine.after(step, NO_WISHES)
    (_, second), (_, last) = Checkpoints(tmp_path).all()
    assert (second.name, last.name) == ("step-000002", "step-000004")
    assert Checkpoints(tmp_path).best() == second.resolve()
    assert json.loads((second / "state.json").read_text())["best"] == [1, 5.0]
    assert json.loads((last / "state.json").read_text())["best"] == [2, 7.0]


def test_best_is_pointed_to_after_a_kill_between_score_and_pointer(tmp_path: Path) -> None:
    with duties(tmp_path, Storage(), torch.zeros(3)) as mine:
        mine.after(1, NO_WISHES)
    Scores(tmp_path).add(1, {"f1": 3.0})
    with duties(tmp_path, Storage(), torch.zeros(3), None, {2: 1.0}) as mine:
        assert mine.owed(1)
    assert Checkpoints(tmp_path).best() == Checkpoints(tmp_path).at(1).resolve()


SCRIPT = """
import sys, time
from pathlib import Path
from lightwork.train.checkpoint import Checkpoints, Part
from lightwork.train.writer import Writer

def slow(folder):
    time.sleep(0.5)
    (folder / "file").write_text("whole")

checkpoints = Checkpoints(Path(sys.argv[1]))
Writer(lambda step, parts: checkpoints.write(step, parts)).begin(1, [Part("model", slow)])
sys.exit(3)
"""


@pytest.mark.processes
def test_the_interpreter_ends_after_the_checkpoint(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (3, "")
    assert Checkpoints(tmp_path).newest(pytest.fail) == Checkpoints(tmp_path).at(1)
