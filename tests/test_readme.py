"""The commands of the README do what it says, on the settings it shows, in both languages."""

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
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")
SMALL = [
    "train.max_steps=2", "train.micro_batch_tokens=512", "launch.device=cpu", "launch.threads=1",
    "model.scratch_layers=1", "model.scratch_width=32", "model.scratch_heads=2",
    "data.max_length=96", "data.stride=8", "data.max_question_length=32",
    "model.scratch_vocabulary=300",
]  # fmt: skip
SCRIPT = """
import json, sys, torch, lightwork
run = lightwork.connect()
model = run.replicate(torch.nn.Linear(2, 1))
loader = run.share(torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in loader:
    loss_sum = model(batch).sum()
    run.backward(loss_sum, len(batch))
    run.step(optimizer)
run.save("out.safetensors", model.state_dict())
assert sys.argv[1:] == ["--epochs", "3"]
"""


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for kind, block in found if kind == language]


def shown() -> list[str]:
    """The last cell of every row of the table."""
    return re.findall(r"\| `([^`]+)` \|$", README, re.MULTILINE)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert targets == {"demo", "test"}
    assert all(f"\n{target}: setup" in makefile for target in targets)


def test_both_languages_show_the_same() -> None:
    for kind in ("", "yaml", "python"):
        assert blocks(README, kind) == blocks(CHINESE, kind)
        assert blocks(README, kind)
    assert re.findall(r"\| `([^`]+)` \|$", CHINESE, re.MULTILINE) == shown()
    assert len(re.findall("^## ", README, re.MULTILINE)) == len(
        re.findall("^## ", CHINESE, re.MULTILINE)
    )


def test_every_line_of_the_table_names_tests_that_exist() -> None:
    """They run with all the others; here only that the names still lead to some."""
    named = [shlex.split(command)[1:] for command in shown() if command.startswith("pytest ")]
    assert len(named) >= 8
    files = sorted({words[0] for words in named})
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    ).stdout.splitlines()  # fmt: skip
    for file, *rest in named:
        wanted = rest[1].split(" or ") if rest else [""]
        for word in wanted:
            assert [t for t in collected if t.startswith(f"{file}::") and word in t], (file, word)


@pytest.mark.processes
@pytest.mark.slow
def test_every_command_runs(tmp_path: Path) -> None:
    settings = blocks(README, "yaml")[0].replace("bert-base-uncased", "scratch")
    (tmp_path / "mine.yaml").write_text(settings + "checkpoint: {keep: 2}\n")
    (tmp_path / "my_script.py").write_text(SCRIPT)
    (tmp_path / "notes.txt").write_text("The book was written by old Anna in the winter.")
    for name, first in (("train", 0), ("dev", 100), ("questions", 200), ("squad", 300)):
        count = 40 if name == "squad" else 9
        (tmp_path / f"{name}.json").write_text(json.dumps(questions(count, first)))
    lines = [line for block in blocks(README, "") for line in block.splitlines()]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[0] in ("make", "tensorboard"):
            continue  # long, or a server; what they need is tested elsewhere
        ran = _run(words, tmp_path)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        if words[:2] == ["lightwork", "data"]:
            assert "nothing in the way of training" in ran.stdout
        if words[:2] == ["lightwork", "score"]:
            assert "scored as English (SQuAD 1.1)" in ran.stdout
        if "answer" in words and "--context" in words:
            assert "%" in ran.stdout
    scores = json.loads((tmp_path / "answers/scores.json").read_text())
    assert scores["total"] == 9
    predictions = json.loads((tmp_path / "predictions.json").read_text())
    assert set(predictions) == {f"q{number}" for number in range(200, 209)}
    for made in ("out.safetensors", "my-model/README.md", "my-model/model.safetensors"):
        assert (tmp_path / made).is_file(), made
    (run, *_) = (tmp_path / "runs").iterdir()
    assert list((run / "tensorboard/rank0").glob("events.*")), "what tensorboard shows"


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """One command of the README, with few ranks, small settings and no download."""
    words = [{"4": "2"}.get(word, word) for word in command]
    start = [sys.executable, "-m"]
    start += ["torch.distributed.run"] if words[0] == "torchrun" else ["lightwork"]
    words = words[1:]
    if "runs/NAME" in words:
        newest = max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
        words = [str(newest) if word == "runs/NAME" else word for word in words]
    elif "init" in words:
        words += ["--model", "scratch"]
    elif {"train", "prepare", "verify"} & set(words):
        words += [*SMALL, f"data.cache={folder / 'cache'}"]
    return subprocess.run(
        [*start, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
