"""The faults that a verdict is tried with, what has to come out, and the runs they are put into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lightwork.report.explaining import sentence
from lightwork.report.finding import Finding
from lightwork.report.fixed_costs import fixed_cost
from lightwork.report.steps import Steps
from lightwork.telemetry.records import STEP_PARTS

FACTOR_WITHIN = 0.10
DIRTY_STEP = 60
TINY = ("train.micro_batch_tokens=64", "model.scratch_width=96")
"""Of a narrower model, so that what each costs by itself is a third of it at least."""

SETTINGS: dict[str, dict[str, Any]] = {
    "data": {"max_length": 128, "stride": 32, "max_question_length": 16},
    "model": {"source": "scratch", "scratch_layers": 3, "scratch_width": 192, "scratch_heads": 4,
              "scratch_vocabulary": 300, "dropout": 0},
    "train": {"batch_size": 32, "max_steps": 80, "epochs": 1000, "learning_rate": 1e-3,
              "shares": 2, "micro_batch_tokens": 8192, "log_every_steps": 20},
    "checkpoint": {"keep": 1},
    "sync": {"timeout_s": 120},
    "launch": {"device": "cpu", "threads": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """A fault, and what has to come out."""

    name: str
    kind: str
    fault: str | None = None
    given: dict[str, Any] = field(default_factory=dict)
    rank: int | None = None
    """The one that has it; None: all."""
    overrides: tuple[str, ...] = ()
    hog: bool = False
    """Another program computes on the core of rank 1."""

    def told(self, cores: Sequence[int]) -> dict[str, Any]:
        """For the ranks; see ``benchmarks.planting.prepare_rank``."""
        return {"cores": list(cores), "fault": self.fault, "given": self.given, "rank": self.rank}


def faults() -> list[Planted]:
    """All of them."""
    return [
        *(
            Planted(f"a rank {n} times as slow", "straggler", "slow_rank", {"factor": n}, 1)
            for n in (1.3, 1.5, 2.0)
        ),
        Planted("a slow loader", "data", "slow_loader", {"times": 2.0}),
        Planted("a slow link", "communication", "slow_link", {"times": 1.2}),
        Planted("tiny micro-batches", "micro_batches", overrides=TINY),
        Planted("unequal shares", "imbalance", "unequal_shares", {"part": 0.7}),
        Planted("unsorted windows", "padding", "unsorted_windows"),
        Planted("a leak", "memory", "leak", {"bytes_a_step": 6 << 20}, 1),
        Planted("garbage labels on a rank", "bad_shard", "garbage_labels", rank=1),
        Planted("garbage in a batch", "spike", "garbage_labels", {"steps": [DIRTY_STEP]}),
        Planted("a hog beside rank 1", "straggler", rank=1, hog=True),
    ]  # fmt: skip


NOTHING = Planted("nothing", "compute")
CABLE = Planted("a slow cable between two hosts", "communication")


def questions(count: int) -> dict[str, Any]:
    """SQuAD 1.1 that is learned in some dozen steps, with contexts of very different lengths."""
    colours, things = "red green blue white black amber violet".split(), "door boat lamp".split()
    paragraphs = []
    for number in range(count):
        colour, thing = colours[number % 7], things[number % 3]
        filler = "the street was quiet and nobody came . " * (number * 7919 % 6)
        context = f"{filler}old Anna{number % 11} has a {colour} {thing} . {filler}"
        answers = [{"text": colour, "answer_start": context.index(colour)}]
        question = f"what colour is the {thing} of Anna{number % 11} ?"
        qas = [{"id": f"q{number}", "question": question, "answers": answers}]
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}


def write_settings(folder: Path, steps: int) -> Path:
    """Settings and data of all runs in ``folder``, each of so many steps."""
    (folder / "train.json").write_text(json.dumps(questions(600)))
    values = {name: dict(section) for name, section in SETTINGS.items()}
    values["data"] |= {"train": str(folder / "train.json"), "cache": str(folder / "cache")}
    values["train"]["max_steps"] = steps
    path = folder / "settings.yaml"
    path.write_text(json.dumps(values, indent=1))  # JSON is YAML
    return path


@dataclass(frozen=True)
class Answer:
    """What ``explain`` made of one run."""

    planted: Planted
    steps: Steps
    found: list[Finding]

    @property
    def kinds(self) -> str:
        """In one word, or several."""
        return " + ".join(finding.kind for finding in self.found)

    def missed(self) -> str | None:
        """What is wrong with it, in words; None where nothing is."""
        planted, first = self.planted, self.found[0]
        if planted.hog and self.kinds == NOTHING.kind:
            return None  # it may take too little to count
        if self.kinds != planted.kind:
            return f"{self.kinds}, not {planted.kind}"
        if first.rank != planted.rank:
            return f"rank {first.rank}, not {planted.rank}"
        factor = planted.given.get("factor")
        if factor and abs((first.factor or 0) / factor - 1) > FACTOR_WITHIN:
            return f"{first.factor:.2f} times, not {factor}"
        wrong = planted.given.get("steps")
        if wrong and (list(first.at_steps) != wrong or not first.examples):
            return f"steps {first.at_steps} with the examples {first.examples}, not {wrong}"
        return None

    def told(self) -> str:
        """All that it takes to judge a miss: every finding, and where a step goes on each rank."""
        lines = [f"    {sentence(finding)}" for finding in self.found]
        lines.append(f"    fixed cost of micro-batches: {fixed_cost(self.steps)}")
        names = [f"{part}_s" for part in ("step", *STEP_PARTS, "busy", "duties")]
        names += ["padded_tokens", "real_tokens", "micro_batches", "rank_loss", "private_bytes"]
        for name in names:
            ends = np.nanquantile(self.steps[name], (0.1, 0.5, 0.9), axis=1).T
            shown = "   ".join("/".join(f"{value:.5g}" for value in rank) for rank in ends)
            lines.append(f"    {name:16}{shown}")
        return "\n".join(lines)
