"""The table of a run's checkpoints tells the whole ones from the others."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from lightwork.errors import RunError
from lightwork.report.checkpoints import CheckpointFacts, goes_on, read_checkpoints, show
from lightwork.settings import read_run
from lightwork.train.checkpoint import Checkpoints
from tests.report.made import made_run, write_scores
from tests.train.test_checkpoint import parts


def saved_run(folder: Path, *steps: int) -> Path:
    """A run with a checkpoint of each step; those of 40 and 80 were scored, 40 is the best."""
    run = made_run(folder)
    checkpoints = Checkpoints(run, read_run(run).run_id)
    for step in steps:
        checkpoints.write(step, parts(step))
    write_scores(run, {40: 90.0, 80: 80.5})
    checkpoints.point_best(40)
    return run


def shown(found: list[CheckpointFacts], width: int = 0, terminal: bool = False) -> list[str]:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, width=width or 80), found)
    return file.getvalue().splitlines()


def test_what_is_known_of_each(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "a", 40, 80, 1_000_000)
    manifest = run / "checkpoints/step-000040/manifest.json"
    os.utime(manifest, (1e9, 1e9))
    found = read_checkpoints(run)
    assert [facts.step for facts in found] == [40, 80, 1_000_000]
    first, second, last = found
    assert (first.score, second.score, last.score) == (90.0, 80.5, None)
    assert (first.best, second.best, last.best) == (True, False, False)
    assert {facts.problem for facts in found} == {None}
    assert first.written_unix_s == 1e9
    folder = run / "checkpoints/step-000040"
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert first.size_bytes == sum(sizes)
    assert first.as_json()["folder"] == str(folder)
    assert goes_on(found)


def test_the_table(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "a", 40, 80)
    (run / "checkpoints/step-000040/state.json").unlink()
    title, first, second = shown(read_checkpoints(run))
    assert title.split() == ["step", "written", "size", "f1", "best", "state"]
    assert first.split()[0] == "40"
    assert first.endswith("90.00  best  state.json is missing")
    assert second.split()[0] == "80"
    assert second.endswith("80.50        verifies")
    assert goes_on(read_checkpoints(run)), "only an older one is damaged"
    wide = shown(read_checkpoints(run), width=120, terminal=True)
    assert any("─" in line for line in wide)


def test_a_damaged_newest_one_stops_nothing_but_is_told(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "a", 40, 80)
    path = run / "checkpoints/step-000080/model/deep/weights"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    found = read_checkpoints(run)
    assert found[-1].problem == "the content of model/deep/weights has changed"
    assert not goes_on(found)


def test_a_name_cannot_move_the_cursor(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "a", 40)
    (run / "checkpoints/step-000040/x\x1b[2J").touch()
    assert "x?[2J does not belong to it" in shown(read_checkpoints(run))[-1]


def test_what_is_unfinished_or_of_another_run(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "a", 40)
    for name in (".step-000050.part", ".step-000030.old", "notes"):
        (run / "checkpoints" / name).mkdir()
    (run / "checkpoints/step-000060").touch()
    Checkpoints(run, "another").write(70, parts(70))
    Checkpoints(run).write(80, parts(80))
    found = read_checkpoints(run)
    assert [facts.step for facts in found] == [40, 70, 80]
    assert [facts.problem for facts in found] == [None, "is of another run", None]


def test_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        read_checkpoints(tmp_path / "nope")
    run = made_run(tmp_path / "a")
    with pytest.raises(RunError, match="no checkpoint inside yet"):
        read_checkpoints(run)
