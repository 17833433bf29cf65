"""The measurement of activation checkpointing in miniature."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import recomputing
from lightwork.tasks.extractive.model import ScratchShape, build_model, train_tokenizer


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The benchmark sets the number of threads, for its own process as it thinks."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="counts by Linux")
def test_less_is_held_by_the_model_that_computes_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_tokenizer(["old Anna has a red door"] * 9, 60, tmp_path)
    shape = ScratchShape(layers=6, hidden=128, heads=4, intermediate=512, positions=128)
    model = build_model("scratch", dropout=None, weights=True, scratch=shape, vocabulary=60)
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    sizes = ["--windows", "16", "--tokens", "128", "--pairs", "2", "--threads", "1"]
    recomputing.main(["--model", str(tmp_path), *sizes])
    shown = capsys.readouterr().out
    assert len(re.findall(r"pair \d: again \d+ MB [\d.]+ s, kept \d+ MB [\d.]+ s", shown)) == 2
    (ratio,) = re.findall(r"activations' memory, again / kept: median ([\d.]+)", shown)
    assert 0 < float(ratio) < 0.8
    assert "time of a step, again / kept: median" in shown
