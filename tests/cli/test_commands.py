"""What the commands check, start and say; no rank is really started here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightwork import __version__
from lightwork.comm.supervisor import Launch
from lightwork.errors import PeerLostError, StepError
from lightwork.settings import load_settings, read_run

Command = Callable[..., Any]


def only_run() -> Path:
    (run,) = Path("runs").iterdir()
    return run


def test_train_opens_the_run_and_starts_ranks_from_its_folder(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    ended = command("train", "s.yaml", "train.epochs=3", "launch.grace_s=2", "--ranks", "4")
    assert (ended.code, ended.out, ended.err) == (7, "", "")
    run = only_run()
    assert run.name.startswith("s-")
    (launch,) = launches
    assert launch.command == (sys.executable, "-m", "lightwork", "train", str(folder / run))
    assert (launch.ranks, launch.grace_s, launch.log_dir) == (4, 2.0, run / "logs")
    assert launch.run_id == read_run(run).run_id
    assert load_settings(run / "settings.yaml") == load_settings(
        Path("s.yaml"), ["train.epochs=3", "launch.grace_s=2"]
    )


def test_a_single_rank_is_supervised_too(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    command("train", "s.yaml")
    assert launches[0].ranks == 1


def test_the_same_settings_resume_and_others_are_another_run(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    command("train", "s.yaml")
    command("train", "s.yaml", "--ranks", "2", "checkpoint.keep=1")
    run = only_run()
    command("train", str(run))
    command("train", str(run / "settings.yaml"))
    assert {launch.run_id for launch in launches} == {read_run(run).run_id}
    assert only_run() == run
    assert "keep: 1" in (run / "settings.yaml").read_text()
    command("train", "s.yaml", "train.seed=1")
    assert len(list(Path("runs").iterdir())) == 2


def test_a_run_of_other_settings_is_refused_with_the_difference(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    command("train", "s.yaml", "--run", "mine")
    stored = Path("mine/settings.yaml").read_text()
    ended = command("train", "s.yaml", "train.seed=1", "--run", "mine")
    assert ended.code == 2
    assert "train.seed: 42 became 1" in ended.err
    assert "--run" in ended.err
    assert "lightwork train mine" in ended.err
    ended = command("train", "mine", "train.batch_size=8")
    assert "train.batch_size: 32 became 8" in ended.err
    assert len(launches) == 1
    assert Path("mine/settings.yaml").read_text() == stored


def test_another_name_of_run_for_torchrun(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    command("train", "s.yaml", "--run-folder", "mine")
    assert launches[0].log_dir == Path("mine/logs")


def test_run_folders_that_cannot_be(folder: Path, command: Command, launches: list[Launch]) -> None:
    Path("a_file").write_text("x")
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("mine")
    for given, reason in [
        ("a_file", "is a file, not a folder"),
        ("a_file/sub", "lies inside a file"),
        ("/proc/none", "cannot be made"),
        ("full", "holds files but no run.json"),
    ]:
        ended = command("train", "s.yaml", "--run", given)
        assert (ended.code, len(ended.err.splitlines())) == (2, 1)
        assert ended.err.startswith(f"error: the run folder {given}")
        assert reason in ended.err
    assert launches == []
    assert [path.name for path in Path("full").iterdir()] == ["thesis.txt"]


def test_paths_are_checked_before_anything_is_made(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    for given in ("nope.json", "名前 with space.json", "~nobody-at-all/x"):
        for name in ("train", "prepare"):
            ended = command(name, "s.yaml", f"data.train={given}")
            assert ended.code == 2
            assert f"data.train: {given} (" in ended.err or f"data.train is {given}" in ended.err
            assert len(ended.err.splitlines()) == 1
    assert not Path("runs").exists()
    assert launches == []


def test_prepare_prepares(folder: Path, command: Command, assembly: Any) -> None:
    ended = command("prepare", "s.yaml", "data.limit=5")
    assert ended.code == 0
    assert assembly.calls == [("run_prepare", (load_settings(Path("s.yaml"), ["data.limit=5"]),))]


@pytest.fixture
def trained(folder: Path, command: Command, launches: list[Launch]) -> Path:
    """A run with a checkpoint, as far as can be seen without opening it."""
    Path("dev.json").write_text("{}")
    command("train", "s.yaml", "data.dev=dev.json", "--run", "run")
    Path("run/checkpoints/step-000010").mkdir(parents=True)
    launches.clear()
    return Path("run")


def test_evaluate_starts_ranks_with_all_it_found_out(
    folder: Path, trained: Path, command: Command, launches: list[Launch]
) -> None:
    Path("other.json").write_text("{}")
    command("evaluate", "run", "evaluate.n_best=3", "--ranks", "2")
    command("evaluate", "run", "--data", "other.json", "--data", "dev.json", "--out", "here")
    first, second = launches
    assert first.command[3:] == (
        "evaluate", str(folder / "run"), "--out", str(folder / "run/evaluation/dev"),
        "--data", str(folder / "dev.json"), "evaluate.n_best=3",
    )  # fmt: skip
    assert first.ranks == 2
    assert first.run_id == read_run(trained).run_id
    assert second.command[5:] == (
        "--out", str(folder / "here"), "--data", str(folder / "other.json"),
        "--data", str(folder / "dev.json"),
    )  # fmt: skip


def test_evaluate_as_a_rank(
    folder: Path, trained: Path, command: Command, assembly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    command("evaluate", "run", "--out", "here", "evaluate.n_best=3")
    settings = load_settings(trained / "settings.yaml", ["evaluate.n_best=3"])
    arguments = (trained, [folder / "dev.json"], folder / "here", settings)
    assert assembly.calls == [("run_evaluate", arguments)]


def test_what_evaluate_refuses(
    folder: Path, trained: Path, command: Command, launches: list[Launch]
) -> None:
    Path("full").mkdir()
    Path("full/x").touch()
    Path("fresh").mkdir()
    Path("fresh/run.json").write_text((trained / "run.json").read_text())
    Path("fresh/settings.yaml").write_text(Path("s.yaml").read_text())
    for arguments, reason in [
        (["nope"], "the run folder nope"),
        (["full"], "holds no run: it has no run.json"),
        (["s.yaml"], "is not a folder"),
        (["fresh"], "no data.dev to evaluate on; name a file with --data FILE"),
        (["fresh", "--data", "dev.json"], "no checkpoint inside yet"),
        (["run", "--data", "nope.json"], "--data: nope.json"),
        (["run", "--data", ""], "--data: the path is empty"),
        (["run", "--out", "s.yaml"], "is a file"),
        (["run", "--out", "full"], "holds files already; add --overwrite"),
        (["run", "train.seed=1"], "train.seed cannot be changed for an evaluation"),
    ]:
        ended = command("evaluate", *arguments)
        assert ended.code == 2, arguments
        assert reason in ended.err, arguments
        assert len(ended.err.splitlines()) == 1
    assert launches == []
    command("evaluate", "run", "--out", "full", "--overwrite")
    assert len(launches) == 1


def test_a_rank_trains_and_the_first_one_opens_the_run(
    folder: Path, command: Command, assembly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, there in (("1", False), ("0", True)):
        monkeypatch.setenv("RANK", rank)
        command("train", "s.yaml")
        name, (settings, run) = assembly.calls.pop()
        assert (name, settings) == ("run_train", load_settings(Path("s.yaml")))
        assert (run / "run.json").exists() is there


def test_ranks_of_a_launcher_do_not_start_ranks(
    folder: Path, command: Command, assembly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    ended = command("train", "s.yaml", "--ranks", "2")
    assert ended.code == 2
    assert "--ranks 2" in ended.err
    assert "torchrun" in ended.err
    assert "RANK=0, WORLD_SIZE=4" in ended.err
    assert assembly.calls == []


def test_a_joint_error_is_said_by_rank_0_only(
    folder: Path, command: Command, assembly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for error, voices in ((StepError("it broke"), {"0"}), (PeerLostError("gone"), {"0", "1"})):
        assembly.error = error
        for rank in ("0", "1"):
            monkeypatch.setenv("RANK", rank)
            ended = command("train", "s.yaml")
            assert ended.code == error.exit_code
            assert ended.err == (f"error: {error}\n" if rank in voices else "")


def test_an_unforeseen_error_is_one_line_and_a_traceback_in_the_log(
    folder: Path, command: Command, assembly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembly.error = KeyError("odd\nthing")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    ended = command("train", "s.yaml")
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1
    assert "unexpected KeyError in cli/conftest.py, line " in ended.err
    log = only_run() / "logs" / "rank0.log"
    assert str(log) in ended.err
    assert "Traceback" in log.read_text()
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    ended = command("prepare", "s.yaml")
    assert len(ended.err.splitlines()) == 1
    log = Path(ended.err.strip().rpartition(" ")[2])
    assert "Traceback" in log.read_text()
    log.unlink()


def test_an_interrupt_is_130(folder: Path, command: Command, assembly: Any) -> None:
    assembly.error = KeyboardInterrupt()
    ended = command("prepare", "s.yaml")
    assert (ended.code, ended.err) == (130, "")


def test_version_and_nearest_words(command: Command) -> None:
    assert command("--version").out == f"lightwork {__version__}\n"
    ended = command("trian", "s.yaml")
    assert ended.code == 2
    assert "Did you mean 'train'?" in ended.err
    ended = command("train", "s.yaml", "--rnks", "2")
    assert ended.code == 2
    assert "--ranks" in ended.err
    assert "─" not in ended.err


def test_records_of_other_formats_and_damaged_ones(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    command("train", "s.yaml", "--run", "run")
    path = Path("run/run.json")
    whole = json.loads(path.read_text())
    assert whole.keys() == {
        "format", "run_id", "identity", "shares", "attempts", "precision", "threads", "total_steps",
    }  # fmt: skip
    for text, reason in [
        (json.dumps({**whole, "format": 2}), "has format 2"),
        (json.dumps({**whole, "more": 2}), "is damaged"),
        (path.read_text()[:-20], "is damaged"),
        ("[]", "is damaged"),
        ("", "is damaged"),
    ]:
        path.write_text(text)
        ended = command("train", "s.yaml", "--run", "run")
        assert ended.code == 2
        assert reason in ended.err
        assert len(ended.err.splitlines()) == 1
