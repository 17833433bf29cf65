"""``train.seed: random``: one number for a run, wherever it is read."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from lightwork.comm.supervisor import Launch
from lightwork.settings import identity, identity_hash, load_settings, read_run
from tests.cli.conftest import Assembly, Command

NUMBERS = [11, 4_000_000_000, 33, 44]


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bits that were asked for; numbers are drawn in the order of NUMBERS."""
    left, asked = iter(NUMBERS), []

    def draw(bits: int) -> int:
        asked.append(bits)
        return next(left)

    monkeypatch.setattr(secrets, "randbits", draw)
    return asked


@pytest.fixture(autouse=True)
def _asks_for_one(folder: Path) -> None:
    with (folder / "s.yaml").open("a") as file:
        file.write("train:\n  seed: random\n")


def seed_of(run: Path) -> int:
    """The number in a run's record, which must be that in its settings."""
    seed = read_run(run).identity["train.seed"]
    assert load_settings(run / "settings.yaml").train.seed == seed
    assert type(seed) is int
    return seed


def runs() -> list[Path]:
    return sorted(Path("runs").iterdir(), key=seed_of)


def test_every_start_is_a_run_of_its_own_that_its_folder_repeats(
    command: Command, launches: list[Launch], drawn: list[int]
) -> None:
    first = command("train", "s.yaml")
    (run,) = runs()
    assert seed_of(run) == 11
    assert run.name == f"s-{identity_hash(identity(load_settings(run / 'settings.yaml')))}"
    assert run.name == f"s-{identity_hash(identity(load_settings(Path('s.yaml'), SEED_11)))}"
    assert f"train.seed is random: 11 in this run; lightwork train {run} goes on" in first.err
    command("train", "s.yaml", "train.epochs=3")
    assert [seed_of(run) for run in runs()] == [11, 4_000_000_000]
    again = command("train", str(run))
    assert "train.seed" not in again.err
    command("train", str(run), "train.seed=random")
    command("train", str(run / "settings.yaml"))
    assert [seed_of(run) for run in runs()] == [11, 4_000_000_000]
    assert drawn == [32, 32]
    started = [Path(launch.command[4]).name for launch in launches]
    assert started[0] == started[2] == started[3] == started[4] == run.name
    assert all(launch.command[3] == "train" and len(launch.command) == 5 for launch in launches)


SEED_11 = ["train.seed=11"]


def test_a_named_folder_keeps_its_number(
    command: Command, launches: list[Launch], drawn: list[int]
) -> None:
    for _ in range(2):
        ended = command("train", "s.yaml", "--run", "mine")
        assert "train.seed is random: 11 in this run" in ended.err
    assert seed_of(Path("mine")) == 11
    assert drawn == [32]
    ended = command("train", "s.yaml", "--run", "mine", "train.epochs=3")
    assert ended.code == 2
    assert "train.epochs: 2 became 3" in ended.err
    assert "train.seed" not in ended.err
    command("train", "s.yaml", "--run", "seven", "train.seed=7")
    assert "train.seed is random: 7 in" in command("train", "s.yaml", "--run", "seven").err


def test_a_folder_that_cannot_be_used_is_refused_as_ever(
    folder: Path, command: Command, launches: list[Launch]
) -> None:
    (folder / "damaged").mkdir()
    (folder / "damaged/run.json").write_text("{")
    (folder / "file").touch()
    for given, words in (("damaged", "is damaged"), ("file", "is a file, not a folder")):
        ended = command("train", "s.yaml", "--run", given)
        assert (ended.code, len(ended.err.splitlines())) == (2, 1)
        assert words in ended.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["s.yaml"], "lightwork train {run}"),
        (["s.yaml", "--ranks", "3"], "lightwork train {run} --ranks 3"),
        (["s.yaml", "--run", "mine"], "the same command"),
        (["s.yaml", "train.seed=5"], "the same command"),
    ],
)
def test_what_goes_on_after_an_interrupt(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    saved: list[str] = []

    def supervise(launch: Launch) -> int:
        for name in saved:
            made = launch.log_dir.parent / "checkpoints" / name
            made.mkdir(parents=True, exist_ok=True)
            (made / "manifest.json").touch()
        return 130

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    ended = command("train", *arguments)
    run = next(Path().glob("mine"), None) or runs()[0]
    words = words.format(run=run)
    assert f"stopped by SIGINT; {words} begins again\n" in ended.err
    saved.append("step-000010")
    first = words.split()[2:] if words.startswith("lightwork") else arguments
    ended = command("train", *first)
    assert f"goes on from step-000010 in {run}\n" in ended.err
    assert len(list(Path().glob("runs/*"))) <= 1, "it really is the same run"


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_ranks_of_another_launcher_need_a_folder(
    command: Command, assembly: Assembly, monkeypatch: pytest.MonkeyPatch, rank: str, lines: int
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for options in ([], ["--dry-run"]):
        ended = command("train", "s.yaml", *options)
        assert (ended.code, len(ended.err.splitlines())) == (2, lines)
        assert lines == 0 or "--run-folder DIR, or give a number" in ended.err
    assert assembly.calls == []
    assert not Path("runs").exists()
    assert command("train", "s.yaml", "train.seed=7").code == 0


def test_the_first_of_them_draws_for_all(
    command: Command, assembly: Assembly, monkeypatch: pytest.MonkeyPatch, drawn: list[int]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, words in (("1", ""), ("0", "train.seed is random: 11 in this run"), ("0", ": 11 in")):
        monkeypatch.setenv("RANK", rank)
        ended = command("train", "s.yaml", "--run-folder", "mine")
        assert ended.code == 0
        assert words in ended.err
        assert bool(ended.err) == bool(words)
    assert seed_of(Path("mine")) == 11
    assert drawn == [32]


def test_a_dry_run_draws_too_and_leaves_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def supervise(launch: Launch) -> int:
        found.append(seed_of(launch.log_dir.parent))
        return 2

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    ended = command("train", "s.yaml", "--dry-run")
    assert (ended.code, ended.err, found) == (2, "", [11])
    assert list(Path("runs").iterdir()) == []


def test_other_commands_take_such_a_file(
    folder: Path, command: Command, launches: list[Launch], assembly: Assembly
) -> None:
    assert command("prepare", "s.yaml").code == 0
    (folder / "dev.json").write_text("{}")
    command("train", "s.yaml", "--run", "mine", "data.dev=dev.json")
    (folder / "mine/checkpoints/step-000010").mkdir(parents=True)
    assert command("evaluate", "mine").code == 7, "as the stand-in for the ranks ends"
    text = (folder / "mine/settings.yaml").read_text()
    (folder / "mine/settings.yaml").write_text(text.replace("seed: 11", "seed: random"))
    assert command("evaluate", "mine").code == 7


def test_an_evaluating_rank_has_the_number(
    folder: Path, command: Command, launches: list[Launch], assembly: Assembly, monkeypatch: Any
) -> None:
    (folder / "dev.json").write_text("{}")
    command("train", "s.yaml", "--run", "mine", "data.dev=dev.json")
    text = (folder / "mine/settings.yaml").read_text()
    (folder / "mine/settings.yaml").write_text(text.replace("seed: 11", "seed: random"))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    command("evaluate", "mine")
    ((name, arguments),) = assembly.calls
    assert (name, arguments[-1].train.seed) == ("run_evaluate", 11)


def test_list_shows_the_numbers(command: Command, launches: list[Launch]) -> None:
    for _ in range(2):
        command("train", "s.yaml")
    lines = command("list", "--sort", "name").out.splitlines()
    place = lines[0].index("train.seed")
    assert {int(line[place:].split()[0]) for line in lines[1:]} == {11, 4_000_000_000}
    found = json.loads(command("list", "--json").out)
    assert {run["identity"]["train.seed"] for run in found} == {11, 4_000_000_000}
