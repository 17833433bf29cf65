"""Run folders made by hand: the files that a training leaves, without a training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightwork.settings import load_settings, open_run, write_run

BATCHES = 40
"""Batches of an epoch."""


def made_run(folder: Path, *overrides: str, content: str = "{}", file: str = "train.json") -> Path:
    """A run in ``folder`` that has only been opened; its data stands beside the folder."""
    data = folder.parent / "data" / folder.name
    data.mkdir(parents=True)
    for name in (file, "dev.json"):
        (data / name).write_text(content)
    places = {"train": file, "dev": "dev.json", "cache": "cache"}
    paths = {key: str(data / name) for key, name in places.items()}
    (data / "s.yaml").write_text(
        json.dumps({"data": paths, "model": {"source": "scratch"}, "train": {"epochs": 3}})
    )
    record = open_run(folder, load_settings(data / "s.yaml", overrides))
    write_run(folder, replace(record, total_steps=3 * BATCHES))
    return folder


def record(step: int, attempt: int = 1, rate: float = 100.0) -> dict[str, Any]:
    """The part of a step record that a list of runs reads."""
    epoch = (step - 1) // BATCHES
    return {"step": step, "epoch": epoch, "attempt": attempt, "batch_windows_per_s": rate}


def write_records(run: Path, rank: int, records: Sequence[dict[str, Any]], end: str = "") -> None:
    """Append records of a rank, and ``end``, such as half a line."""
    (run / "metrics").mkdir(exist_ok=True)
    with (run / "metrics" / f"rank{rank}.jsonl").open("a") as file:
        file.write("".join(json.dumps(entry) + "\n" for entry in records) + end)


def write_checkpoint(run: Path, step: int, **more: Any) -> None:
    """What is read of a checkpoint without loading it."""
    folder = run / "checkpoints" / f"step-{step:06d}"
    folder.mkdir(parents=True)
    epoch, batch = divmod(step, BATCHES)
    state = {"step": step, "position": {"epoch": epoch, "batch": batch}, **more}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "manifest.json").write_text("{}")


def write_scores(run: Path, scores: dict[int, float], end: str = "") -> None:
    """Evaluations, and ``end``, such as half a line."""
    with (run / "evaluations.jsonl").open("a") as file:
        for step, score in scores.items():
            entry = {"step": step, "exact_match": score - 10, "f1": score, "total": 17}
            file.write(json.dumps(entry) + "\n")
        file.write(end)


def finished_run(folder: Path, score: float, *overrides: str, **files: str) -> Path:
    """A run of 120 steps on two ranks that has come to its end with this best score."""
    run = made_run(folder, *overrides, **files)
    for rank in (0, 1):
        write_records(run, rank, [record(step) for step in range(1, 3 * BATCHES + 1)])
    write_checkpoint(run, 2 * BATCHES)
    write_checkpoint(run, 3 * BATCHES)
    write_scores(run, {40: score - 20, 80: score, 120: score - 1})
    (run / "best").symlink_to("checkpoints/step-000080")
    return run
