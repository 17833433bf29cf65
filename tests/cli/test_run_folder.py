"""The record of a run, and which folders may become one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lightwork.errors import RunError
from lightwork.settings import (
    RunRecord,
    check_run,
    identity,
    identity_hash,
    load_settings,
    locate,
    open_run,
    read_run,
    run_folder,
    write_run,
)


def test_the_folder_is_named_by_what_is_learned(folder: Path) -> None:
    settings = load_settings(Path("s.yaml"))
    run = run_folder(settings, "s", None)
    assert run == Path("runs") / f"s-{identity_hash(identity(settings))}"
    assert not run.exists()
    assert run_folder(settings, "s", Path("~")) == Path.home()


def test_a_record_is_written_whole_and_read_again(folder: Path) -> None:
    record = RunRecord({"train.seed": 1})
    write_run(folder, record)
    changed = replace(record, shares=4, attempts=2)
    write_run(folder, changed)
    assert read_run(folder) == changed
    assert check_run(folder, {"train.seed": 1}) == changed
    assert not [path for path in folder.iterdir() if path.name.endswith(".new")]
    with pytest.raises(RunError, match=r"train\.seed: 1 became 2"):
        check_run(folder, {"train.seed": 2})


def test_a_failed_write_leaves_the_old_record(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = RunRecord({})
    write_run(folder, record)

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(RunError, match="No space left on device"):
        write_run(folder, RunRecord({"train.seed": 2}))
    assert read_run(folder) == record


def test_a_start_that_died_early_does_not_block_the_folder(folder: Path) -> None:
    settings = load_settings(Path("s.yaml"))
    run = Path("run")
    (run / "logs").mkdir(parents=True)
    (run / ".lock").touch()
    (run / "run.jsonabc.new").touch()
    assert open_run(run, settings).identity == identity(settings)
    assert open_run(run, settings) == read_run(run)


def test_locate(folder: Path) -> None:
    assert locate(Path("s.yaml")) == (Path("s.yaml"), None)
    run = Path("run")
    open_run(run, load_settings(Path("s.yaml")))
    assert locate(run) == (run / "settings.yaml", run)
    assert locate(run / "settings.yaml") == (run / "settings.yaml", run)
    (folder / "settings.yaml").write_text("x")
    assert locate(Path("settings.yaml")) == (Path("settings.yaml"), None)
