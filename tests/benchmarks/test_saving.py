"""How long a checkpoint stops training, in miniature, and how it is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import saving
from benchmarks.saving import Pair, shown, verdict
from lightwork.tasks.extractive.model import ScratchShape, build_model, train_tokenizer


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The benchmark sets the number of threads, for its own process as it thinks."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_the_ratio_and_the_goal() -> None:
    fast, slow = Pair(2.0, 0.1, 2.5, 1.0, 1.25), Pair(2.0, 0.5, 2.5, 1.0, None)
    assert verdict([fast]).endswith("median 0.050 (0.050 - 0.050); goal 0.1: met")
    assert verdict([fast, slow]).endswith("median 0.150 (0.050 - 0.250); goal 0.1: missed")
    assert "0.100 s of standing still" in shown("pair 1", fast)
    assert shown("pair 1", fast).endswith("a step 1.00 s alone, 1.25 s beside it")
    assert shown("pair 2", slow).endswith("- s beside it")


def test_both_ways_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tokenizer(["old Anna has a red door"] * 9, 60, tmp_path)
    shape = ScratchShape(layers=2, hidden=64, heads=2, intermediate=128, positions=32)
    model = build_model("scratch", dropout=None, weights=True, scratch=shape, vocabulary=60)
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    (tmp_path / "disk").mkdir()
    saving.main(
        [
            "--model", str(tmp_path), "--windows", "2", "--tokens", "16", "--pairs", "3",
            "--threads", "1", "--folder", str(tmp_path / "disk"),
        ]
    )  # fmt: skip
    text = capsys.readouterr().out
    pairs = re.findall(r"pair \d: blocking ([\d.]+) s; beside training ([\d.]+) s of", text)
    assert len(pairs) == 3
    assert all(float(number) > 0 for pair in pairs for number in pair)
    assert re.search(r"beside / blocking: median [\d.]+ \([\d.]+ - [\d.]+\); goal 0.1", text)
    assert list((tmp_path / "disk").iterdir()) == []
