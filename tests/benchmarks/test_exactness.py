"""One digest at any number of processes, in miniature; and that another one is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import exactness
from benchmarks.exactness import SETTINGS, Occasions, Result, limit, occasions, problems
from benchmarks.launching import write_settings
from lightwork.errors import LightworkError
from lightwork.settings import load_settings
from tests.benchmarks.conftest import Course
from tests.benchmarks.documented import documented

TINY = ["model.scratch_layers=1", "model.scratch_width=32", "model.scratch_heads=2"]
TINY += ["model.scratch_vocabulary=300", "model.source=scratch"]
HELD = Occasions(short_batches=2, accumulating=9, lengths=30, dropout=True)


def result(ranks: int, **more: Any) -> Result:
    given: dict[str, Any] = {
        "digests": {"weights": "a", "optimizer": "b"},
        "clipped": 3,
        "fingerprint": {"threads": 1},
        **more,
    }
    return Result(ranks=ranks, wall_s=1.0, **given)


def test_differences_and_what_is_missing_are_told() -> None:
    assert problems([result(1), result(2)], HELD) == []
    other = result(3, digests={"weights": "a", "optimizer": "c"}, fingerprint={"threads": 2})
    assert problems([result(1), result(2), other], HELD) == [
        "3 and 1 ranks differ in the optimizer",
        "3 ranks computed otherwise: threads",
    ]
    nothing = Occasions(short_batches=0, accumulating=0, lengths=1, dropout=False)
    assert problems([result(1), result(2, clipped=0)], nothing) == [
        "not in the steps: a batch with fewer windows than shares",
        "not in the steps: a share with several micro-batches",
        "not in the steps: windows of unequal lengths",
        "not in the steps: dropout",
        "not in the steps: a gradient that was clipped",
    ]
    assert problems([result(2)], HELD) == ["one number of ranks has nothing to be compared with"]


def settings_file(folder: Path, data: Path | None, steps: int) -> Path:
    train = {**SETTINGS["train"], "max_steps": steps}
    return write_settings(folder, {**SETTINGS, "train": train}, data)


def test_the_data_is_cut_so_that_the_steps_hold_it_all(tmp_path: Path) -> None:
    path = settings_file(tmp_path, None, 6)
    chosen = [*TINY, limit(path, TINY)]
    held = occasions(load_settings(path, chosen))
    assert held.missing() == []
    assert held.short_batches == 2, "in the middle and at the end"
    assert held.accumulating >= 4
    easier = [*chosen, "train.micro_batch_tokens=100000", "model.dropout=0"]
    assert occasions(load_settings(path, easier)).missing() == [
        "a share with several micro-batches",
        "dropout",
    ]
    windows = [*TINY, "data.limit=64"]
    assert occasions(load_settings(path, windows)).short_batches == 0


def test_data_that_cannot_give_a_short_batch_is_refused(course: Course, tmp_path: Path) -> None:
    path = settings_file(tmp_path, course.train, 20)
    with pytest.raises(LightworkError, match="give 10 batches of 32 windows of which the last"):
        limit(path, TINY)
    with pytest.raises(LightworkError, match=r"train\.shares=auto depends on the ranks"):
        limit(path, [*TINY, "train.shares=auto"])
    with pytest.raises(SystemExit, match="nowhere does not exist"):
        exactness.main(["--data", str(course.model / "nowhere")])


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("command", documented("exactness"), ids=" ".join)
def test_the_commands_find_one_digest(
    command: list[str],
    course: Course,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(course.train, tmp_path / "train.json")
    monkeypatch.chdir(tmp_path)
    exactness.main([*command, "--ranks", "1,3", "--steps", "4", "--work", "kept", *TINY])
    shown = capsys.readouterr().out
    rows = [line.split(" | ")[3:] for line in shown.splitlines() if line.startswith(("| 1", "| 3"))]
    assert len(rows) == 2
    assert rows[0] == rows[1]
    assert "one SHA-256 of the weights: " in shown
    assert "one SHA-256 of the optimizer: " in shown
    assert "2 with fewer windows than shares" in shown
    (kept,) = (tmp_path / "kept").iterdir()
    assert {"ranks1", "ranks3"} <= {path.name for path in kept.iterdir()}


@pytest.mark.long
@pytest.mark.processes
def test_another_strategy_has_another_digest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        exactness.main(["--ranks", "1,2", "--steps", "4", *TINY, "sync.strategy=all_reduce"])
    assert "2 and 1 ranks differ in the weights" in str(end.value)
    assert "one SHA-256" not in capsys.readouterr().out
