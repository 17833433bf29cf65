"""A small world for whole runs: a few dozen questions and a model that trains in seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ranks import run_as_processes

PROGRAMS = Path(__file__).with_name("programs.py")
COLOURS = ["red", "green", "blue", "white", "black", "amber", "violet"]
THINGS = ["door", "boat", "lamp", "coat", "bell", "chair"]


def questions(count: int, first: int = 0) -> dict[str, Any]:
    """SQuAD 1.1 with contexts of very different lengths; some need two windows."""
    paragraphs = []
    for number in range(first, first + count):
        colour, thing = COLOURS[number % 7], THINGS[number % 6]
        filler = "the street was quiet and nobody came . " * (number % 5)
        context = f"{filler}old Anna{number % 11} has a {colour} {thing} . {filler}"
        answers = [{"text": colour, "answer_start": context.index(colour)}]
        question = f"what colour is the {thing} of Anna{number % 11} ?"
        qas = [{"id": f"q{number}", "question": question, "answers": answers}]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}


def weights_digest(run: Path, step: int | None = None) -> str:
    """SHA-256 of the weights and the optimizer's state in a checkpoint, by default the newest."""
    whole = hashlib.sha256()
    for name in ("model/model.safetensors", "optimizer.safetensors"):
        whole.update((checkpoint_of(run, step) / name).read_bytes())
    return whole.hexdigest()


def fingerprint_of(run: Path) -> dict[str, Any]:
    """What the bits of the newest checkpoint depend on."""
    state = json.loads((checkpoint_of(run) / "state.json").read_text())
    return dict(state["fingerprint"])


def checkpoint_of(run: Path, step: int | None = None) -> Path:
    """The folder of a checkpoint, by default the newest."""
    if step is not None:
        return run / "checkpoints" / f"step-{step:06d}"
    return max((run / "checkpoints").glob("step-*"))


class World:
    """Data, settings and a cache in one folder, and ranks to run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, content in (("train", questions(50)), ("dev", questions(17, 100))):
            (folder / f"{name}.json").write_text(json.dumps(content))
        self.settings = folder / "tiny.yaml"
        self.settings.write_text(SETTINGS.format(folder=folder))

    def train(self, ranks: int, name: str, *overrides: str) -> Path:
        """Train with ``ranks`` processes in the run folder ``name``."""
        run = self.folder / name
        self._start(ranks, "train", str(self.settings), str(run), *overrides)
        return run

    def evaluate(self, ranks: int, run: Path, out: str, *overrides: str) -> Path:
        """Evaluate ``run`` on dev.json with ``ranks`` processes."""
        target = self.folder / out
        dev = str(self.folder / "dev.json")
        self._start(ranks, "evaluate", str(self.settings), str(run), dev, str(target), *overrides)
        return target

    def dry_run(self, ranks: int, name: str, *overrides: str) -> Path:
        """Try everything once with ``ranks`` processes in the folder ``name``."""
        run = self.folder / name
        self._start(ranks, "dry_run", str(self.settings), str(run), *overrides)
        return run

    def _start(self, ranks: int, what: str, *arguments: str) -> None:
        run_as_processes(ranks, f"{PROGRAMS}:{what}", *arguments, timeout_s=120, join=False)


SETTINGS = """
data: {{train: {folder}/train.json, dev: {folder}/dev.json, cache: {folder}/cache,
        max_length: 48, stride: 8, max_question_length: 16}}
model: {{source: scratch, scratch_layers: 2, scratch_width: 32, scratch_heads: 2,
         scratch_vocabulary: 300, dropout: 0}}
train: {{batch_size: 8, epochs: 2, learning_rate: 1e-3, micro_batch_tokens: 128,
         log_every_steps: 1}}
sync: {{bucket_bytes: 16KiB, timeout_s: 60}}
launch: {{device: cpu, threads: 1}}
"""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """One folder for all tests of whole runs, so that data is prepared once."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def losses() -> Callable[[Path], list[float]]:
    """Reads the batch losses of a run from rank 0's metrics."""

    def read(run: Path) -> list[float]:
        lines = (run / "metrics" / "rank0.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    return read
