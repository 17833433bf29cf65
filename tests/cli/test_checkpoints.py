"""``lightwork checkpoints``: a table or JSON, and an exit code that a script can use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.report.test_checkpoints import saved_run
from tests.test_docs import commands, words_of

Command = Callable[..., Any]
PAGE = (ROOT / "docs/checkpoints.md").read_text(encoding="utf-8")


def test_a_whole_run(folder: Path, command: Command) -> None:
    saved_run(folder / "runs/a", 40, 80)
    ended = command("checkpoints", "runs/a")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[-1] for line in ended.out.splitlines()[1:]] == ["verifies"] * 2


def test_json(folder: Path, command: Command) -> None:
    run = saved_run(folder / "runs/a", 40, 80)
    (run / "checkpoints/step-000040/state.json").unlink()
    ended = command("checkpoints", "runs/a", "--json")
    assert ended.code == 0
    first, second = json.loads(ended.out)
    assert first["problem"] == "state.json is missing"
    assert (second["step"], second["score"], second["metric"]) == (80, 80.5, "f1")
    assert second["problem"] is None
    assert (first["best"], second["best"]) == (True, False)
    assert second["folder"] == "runs/a/checkpoints/step-000080"


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_damaged_newest_checkpoint_is_1(
    folder: Path, command: Command, option: list[str]
) -> None:
    run = saved_run(folder / "runs/a", 40, 80)
    (run / "checkpoints/step-000080/manifest.json").unlink()
    ended = command("checkpoints", "runs/a", *option)
    assert ended.code == 1
    assert "manifest.json is missing" in ended.out
    assert ended.err == ""


def test_no_run_and_no_checkpoint_are_2(folder: Path, command: Command) -> None:
    ended = command("checkpoints", "nope")
    assert (ended.code, ended.out) == (2, "")
    assert "does not exist" in ended.err
    run = saved_run(folder / "runs/a", 40)
    (run / "checkpoints").rename(folder / "away")
    ended = command("checkpoints", "runs/a")
    assert ended.code == 2
    assert "no checkpoint inside yet; train first: lightwork train runs/a" in ended.err


def test_the_commands_of_the_page(folder: Path, command: Command) -> None:
    """All that do not train; what they print is on the page, but for dates and sizes."""
    saved_run(folder / "runs/mine", 40, 80)
    ours = [words for words in map(words_of, commands(PAGE)) if words[0] == "checkpoints"]
    assert len(ours) == 2
    table, as_json = (command(*words) for words in ours)
    assert (table.code, as_json.code) == (0, 0)
    titles = table.out.splitlines()[0].split()
    assert any(line.split() == titles for line in PAGE.splitlines())
    assert all(f"`{name}`" in PAGE for name in json.loads(as_json.out)[0])
