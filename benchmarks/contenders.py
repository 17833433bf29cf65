"""The contenders: how each is started, where its steps are noted, how its answers are scored."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.adapters.spec import PREDICTIONS, STEPS, Spec
from lightwork.errors import LightworkError
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.scoring.score import Gold, score_answers

Scores = dict[str, float | int]


@dataclass(frozen=True)
class Contender:
    """One way to train the same."""

    name: str
    needs: str
    """The package that must be installed."""
    command: Callable[[Spec], list[str]]
    """Writes what the command reads into ``spec.out``, and gives the command line."""
    steps: str
    """File below ``spec.out`` with ``step``, ``time_unix_s`` and ``loss``, one object a line."""
    scores: Callable[[Spec], Scores]
    """Exact match and F1 on the dev questions, after a whole run."""


def _started(module: str) -> Callable[[Spec], list[str]]:
    def command(spec: Spec) -> list[str]:
        path = Path(spec.out) / "spec.json"
        spec.save(path)
        program = ["-m", f"benchmarks.adapters.{module}", str(path)]
        if spec.ranks == 1:
            # Nobody wraps a single rank for DDP; but the Trainer takes every GPU that it sees.
            seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            return ["env", f"CUDA_VISIBLE_DEVICES={seen}", sys.executable, *program]
        launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={spec.ranks}"]
        return [sys.executable, "-m", *launcher, *program]

    return command


def _peer_scores(spec: Spec) -> Scores:
    """lightwork's scorer on the answers a peer wrote down."""
    answers = json.loads((Path(spec.out) / PREDICTIONS).read_text(encoding="utf-8"))
    golds = {
        example.id: Gold(tuple(answer.text for answer in example.answers), example.context)
        for example in read_examples([Path(spec.dev_file)], on_mismatch="drop")
    }
    return score_answers(answers, golds)


def lightwork_settings(spec: Spec) -> str:
    """The settings file of the same training; JSON is YAML."""
    settings: dict[str, dict[str, Any]] = {
        "data": {
            "train": spec.train_file,
            "cache": spec.cache,
            "max_length": spec.max_length,
            "stride": spec.stride,
        },
        "model": {"source": spec.model},
        "train": {
            "batch_size": spec.batch_size,
            "epochs": spec.epochs,
            "learning_rate": spec.learning_rate,
            "warmup_ratio": 0,
            "weight_decay": spec.weight_decay,
            "max_grad_norm": spec.max_grad_norm,
            "seed": spec.seed,
            "precision": "fp32",
            "log_every_steps": spec.log_every_steps,
        },
        "evaluate": {"n_best": spec.n_best, "max_answer_tokens": spec.max_answer_tokens},
        "launch": {"device": spec.device, "threads": 1},
    }
    if spec.whole:
        settings["data"]["dev"] = spec.dev_file
    if spec.max_steps is not None:
        settings["train"]["max_steps"] = spec.max_steps
    return json.dumps(settings, indent=1)


def write_lightwork_settings(spec: Spec) -> Path:
    """The settings in ``spec.out``."""
    path = Path(spec.out) / "settings.yaml"
    path.write_text(lightwork_settings(spec), encoding="utf-8")
    return path


def _lightwork(spec: Spec) -> list[str]:
    path = str(write_lightwork_settings(spec))
    run = str(Path(spec.out) / "run")
    return [sys.executable, "-m", "lightwork", "train", path, f"--ranks={spec.ranks}", "--run", run]


def _lightwork_scores(spec: Spec) -> Scores:
    """What lightwork wrote down after its last step: it uses the same scorer itself."""
    lines = (Path(spec.out) / "run/evaluations.jsonl").read_text(encoding="utf-8").splitlines()
    scores: Scores = json.loads(lines[-1])
    return scores


def _peer(name: str, needs: str, module: str) -> Contender:
    return Contender(name, needs, _started(module), STEPS, _peer_scores)


LIGHTWORK = Contender(
    "lightwork", "lightwork", _lightwork, "run/metrics/rank0.jsonl", _lightwork_scores
)

CONTENDERS = {
    contender.name: contender
    for contender in (
        LIGHTWORK,
        _peer("trainer-default", "accelerate", "trainer_default"),
        _peer("trainer-tuned", "accelerate", "trainer_tuned"),
        _peer("trainer-rebalanced", "accelerate", "trainer_rebalanced"),
        _peer("accelerate", "accelerate", "accelerate_loop"),
        _peer("fabric", "lightning_fabric", "fabric_loop"),
    )
}


def choose(names: list[str]) -> list[Contender]:
    """The contenders of these names, which must be known and installed."""
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown:
        raise LightworkError(
            f"--contenders: {', '.join(unknown)} is not known; choose from {', '.join(CONTENDERS)}"
        )
    found = [CONTENDERS[name] for name in names]
    missing = sorted({one.needs for one in found if find_spec(one.needs) is None})
    if missing:
        raise LightworkError(
            f"--contenders: {', '.join(missing)} is not installed; run pip install -c "
            "constraints.txt -e '.[bench]', or name other contenders"
        )
    return found
