"""The commands of the README do what it says, on the settings it shows."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.runs.conftest import questions

README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = [
    "train.max_steps=2", "train.micro_batch_tokens=512", "launch.device=cpu", "launch.threads=1",
    "model.scratch_width=32", "model.scratch_heads=2", "data.max_length=96", "data.stride=8",
    "data.max_question_length=32", "model.scratch_vocabulary=300",
]  # fmt: skip


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind == language]


def commands() -> list[list[str]]:
    """The lines of the block that starts with ``lightwork prepare``, split as a shell does."""
    block = next(block for block in blocks("") if block.startswith("lightwork prepare"))
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert targets == {"demo", "test"}
    assert all(f"\n{target}: setup" in makefile for target in targets)


@pytest.mark.processes
@pytest.mark.slow
def test_every_command_runs(tmp_path: Path) -> None:
    settings = blocks("yaml")[0].replace("bert-base-uncased", "scratch")
    (tmp_path / "squad.yaml").write_text(settings + "checkpoint: {keep: 2}\n")
    for name, first in (("train", 0), ("dev", 100)):
        (tmp_path / f"{name}.json").write_text(json.dumps(questions(9, first)))
    for command in commands():
        ran = _run(command, tmp_path)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    scores = json.loads((tmp_path / "answers/scores.json").read_text())
    assert scores["total"] == 9
    assert {path.name for path in (tmp_path / "answers").iterdir()} == {
        "predictions.json", "nbest.json", "scores.json",
    }  # fmt: skip


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """One command of the README, with few ranks and small settings."""
    words = [{"4": "2"}.get(word, word) for word in command]
    start = [sys.executable, "-m"]
    start += ["torch.distributed.run"] if words[0] == "torchrun" else ["lightwork"]
    words = words[1:]
    if "evaluate" in words:
        newest = max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
        words = [str(newest) if word == "runs/NAME" else word for word in words]
    else:
        words += [*SMALL, f"data.cache={folder / 'cache'}"]
    return subprocess.run(
        [*start, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
