"""The example script becomes multi-card in ten lines, and learns what it learned before."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tests.api.test_endings import start
from tests.conftest import ROOT
from tests.ranks import run_as_processes

PROGRAMS = Path(__file__).with_name("programs.py")
SINGLE, OWN = ROOT / "examples/own_script_single.py", ROOT / "examples/own_script.py"
LAUNCHERS = {
    "lightwork": ["-m", "lightwork", "launch", "--ranks"],
    "torchrun": ["-m", "torch.distributed.run", "--nproc-per-node"],
}
EPOCHS, BATCH = 3, 6  # of 19 questions: the last batch has one, fewer than there are ranks


def changed_lines(before: str, after: str) -> int:
    """Lines to touch to come from one text to the other; a replaced line counts once."""
    matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(max(b - a, d - c) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal")


def arguments(tiny: Path, model: str, out: Path) -> list[str]:
    return ["--model", str(tiny / model), "--data", str(tiny / "train.json"), "--out", str(out),
            "--epochs", str(EPOCHS), "--batch-size", str(BATCH)]  # fmt: skip


def losses(printed: str) -> list[float]:
    found = [float(text) for text in re.findall(r"^epoch \d step \d loss (\S+)$", printed, re.M)]
    assert len(found) == 4 * EPOCHS, "rank 0 alone prints, once a step"
    return found


def alone(script: Path, tiny: Path, model: str, out: Path) -> list[float]:
    printed = run_as_processes(
        1, f"{PROGRAMS}:script", str(script), *arguments(tiny, model, out), join=False
    )
    return losses(printed[0])


def test_ten_lines_change() -> None:
    assert changed_lines(SINGLE.read_text(), OWN.read_text()) <= 10
    assert len(OWN.read_text().splitlines()) < 90
    assert "lightwork" not in SINGLE.read_text()


@pytest.mark.processes
def test_on_one_rank_it_is_the_single_card_script_to_the_last_bit(
    tiny: Path, tmp_path: Path
) -> None:
    """With dropout: the same random numbers are drawn at the same places."""
    single = alone(SINGLE, tiny, "dropping", tmp_path / "single")
    assert alone(OWN, tiny, "dropping", tmp_path / "own") == single
    weights = load_file(tmp_path / "single/model.safetensors")
    mine = load_file(tmp_path / "own/model.safetensors")
    assert weights.keys() == mine.keys()
    assert all(torch.equal(weights[name], mine[name]) for name in weights)
    start = load_file(tiny / "dropping/model.safetensors")
    assert not any(torch.equal(weights[name], start[name]) for name in weights), "it learned"


@pytest.fixture(scope="module")
def wanted(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of the single-card script, without dropout."""
    return alone(SINGLE, tiny, "plain", tmp_path_factory.mktemp("single") / "out")


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "ranks"),
    [
        ("lightwork", 2),
        ("torchrun", 3),
        *(pytest.param("lightwork", ranks, marks=pytest.mark.long) for ranks in (1, 3)),
        *(pytest.param("torchrun", ranks, marks=pytest.mark.long) for ranks in (1, 2)),
    ],
)
def test_on_several_ranks_the_losses_are_the_same(
    tiny: Path, tmp_path: Path, wanted: list[float], launcher: str, ranks: int
) -> None:
    out = tmp_path / "out"
    command = [*LAUNCHERS[launcher], str(ranks), str(OWN)]
    ended = start(tmp_path, *command, *arguments(tiny, "plain", out))
    assert ended.returncode == 0, ended.stderr
    assert losses(ended.stdout) == pytest.approx(wanted, rel=1e-5)
    assert (out / "model.safetensors").is_file()
    assert len(AutoTokenizer.from_pretrained(out)) > 100
    left = {path.name for path in tmp_path.iterdir() if "torchelastic" not in path.name}
    assert left == {"out"}, "no temporary names, no logs of a run that went well"
