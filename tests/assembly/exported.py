"""Runs with a tiny model that has learned nothing, made without a training, to be exported."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from lightwork.assembly.exporting import run_export
from lightwork.settings import identity, load_settings, open_run, write_run
from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    load_tokenizer,
    save_model,
    train_tokenizer,
)
from lightwork.train.checkpoint import Checkpoints, Part

STORY = "the old keeper of the tower lit a lamp at dusk . a boat came over the grey water . " * 4
QUESTIONS = ["who lit a lamp ?", "what came over the water ?", "when ?", "keeper"]
SETTINGS = """
data: {{train: [{0}/squad train.json, {0}/more.json], dev: {0}/dev.json, cache: {0}/cache,
        max_length: 32, stride: 8, max_question_length: 12}}
model: {{source: {1}, scratch_layers: 1, scratch_width: 32, scratch_heads: 2}}
train: {{batch_size: 8, epochs: 2, learning_rate: 1e-3, seed: 7}}
evaluate: {{n_best: 20, max_answer_tokens: 6}}
launch: {{device: cpu, threads: 1}}
"""


@cache
def learned() -> tuple[Any, Any]:
    """A model of random weights, spread out so that answers differ, and its tokenizer."""
    with tempfile.TemporaryDirectory() as name:
        train_tokenizer([STORY, *QUESTIONS], 150, Path(name))
        tokenizer = load_tokenizer(name)
    torch.manual_seed(3)
    shape = ScratchShape(1, 32, 2, 64, 32)
    model = build_model(
        "scratch", dropout=None, weights=True, scratch=shape, vocabulary=len(tokenizer)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(15)
    return model.eval(), tokenizer


def made_run(
    tmp_path: Path, source: str = "scratch", threshold: float | None = None, **state: Any
) -> Path:
    """A run whose best step is 4 of 8; ``state``: what its checkpoints say besides; ``threshold``:
    for "no answer", as the evaluation of step 4 found it.
    """
    folder = tmp_path / "runs" / "mine"
    for name in ("squad train.json", "more.json", "dev.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "s.yaml").write_text(SETTINGS.format(tmp_path, source))
    settings = load_settings(tmp_path / "s.yaml")
    write_run(folder, replace(open_run(folder, settings), total_steps=8, precision="bf16"))
    checkpoints = Checkpoints(folder)
    with (folder / "evaluations.jsonl").open("w") as file:
        for step, score in ((4, 81.386), (8, 79.5)):
            facts = {
                "step": step,
                "position": {"epoch": step // 4, "batch": 0},
                "identity": identity(settings),
                "impossible": False,
                "lightwork": "0.1.0",
                "torch": "2.9",
                **state,
            }
            parts = (Part("model", partial(save_model, *learned())), Part("state", facts))
            checkpoints.write(step, parts)
            scores = {"step": step, "exact_match": 76.008, "f1": score, "total": 496}
            if threshold is not None:
                scores |= {"no_answer_threshold": threshold if step == 4 else 9.0}
            file.write(json.dumps(scores) + "\n")
    checkpoints.point_best(4)
    return folder


def export(run: Path, out: Path) -> Path:
    """Export to ``out``."""
    return run_export(run, out, load_settings(run / "settings.yaml")).folder


def files(folder: Path) -> dict[str, bytes]:
    """Name -> content."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
