"""One digest for any number of processes: ``python -m benchmarks.exactness [SECTION.KEY=VALUE …]``.

Starts ``lightwork train --ranks N`` with ``sync.strategy: tree`` for one N after the other, on the
same questions, and compares the SHA-256 of the weights and of the optimizer's state after the last
step. The steps hold what could tell numbers of processes apart: dropout, windows of unequal
lengths, several micro-batches in a share, epochs that end with fewer windows than shares, and
clipping; that they do is checked and said. Ends with 1 where digests differ or something was not
in the steps. Without ``--data`` the questions are those of ``lightwork sample``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.launching import MODEL, numbers, write_settings
from benchmarks.machine import machine, versions
from benchmarks.racing import run_command
from lightwork.assembly.preparing import prepare
from lightwork.data.plan import EpochPlan, cut, round_to_on
from lightwork.disk import file_digest
from lightwork.errors import LightworkError
from lightwork.settings import Settings, check_files, load_settings

SETTINGS: dict[str, dict[str, Any]] = {
    "data": {"max_length": 128, "stride": 32, "max_question_length": 32, "on_mismatch": "drop"},
    "model": {"source": MODEL, "dropout": 0.1},
    # Half the tokens of a share of 32 / 8 windows, so that it needs more than one micro-batch.
    "train": {"shares": 8, "batch_size": 32, "micro_batch_tokens": 160, "epochs": 1000,
              "learning_rate": 1e-4, "max_grad_norm": 1.0, "log_every_steps": 10},
    "sync": {"strategy": "tree"},
    "checkpoint": {"keep": 1},
    "launch": {"device": "cpu", "threads": 1},
}  # fmt: skip
FILES = {"weights": "model/model.safetensors", "optimizer": "optimizer.safetensors"}
EPOCHS = 2
"""That the steps go through, so that a short batch comes in the middle and at the end."""


@dataclass(frozen=True)
class Occasions:
    """What the steps hold, known from the plan."""

    short_batches: int
    """With fewer windows than shares: some shares are empty."""
    accumulating: int
    """With several micro-batches in some share."""
    lengths: int
    """Different lengths of windows."""
    dropout: bool

    def missing(self) -> list[str]:
        """In words."""
        wanted = {
            "a batch with fewer windows than shares": self.short_batches,
            "a share with several micro-batches": self.accumulating,
            "windows of unequal lengths": self.lengths > 1,
            "dropout": self.dropout,
        }
        return [what for what, there in wanted.items() if not there]


def limit(path: Path, overrides: Sequence[str]) -> str:
    """``data.limit=N`` with which an epoch is one of ``EPOCHS`` and ends with a short batch.

    Raises:
        LightworkError: the data has too few questions.
    """
    settings = load_settings(path, overrides)
    train, shares = settings.train, shares_of(settings)
    assert train.micro_batch_tokens != "auto", "it was given with the others"
    batches = (train.max_steps or 0) // EPOCHS
    most = max(1, batches * train.batch_size)
    settings = load_settings(path, [*overrides, f"data.limit={most}"])
    example = prepare(settings).train.column("example")
    for questions in range(min(most, int(example[-1]) + 1), 0, -1):
        full, rest = divmod(int(np.searchsorted(example, questions)), train.batch_size)
        if 0 < rest < shares and full + 1 == batches:
            return f"data.limit={questions}"
    raise LightworkError(
        f"no first questions of the data give {batches} batches of {train.batch_size} windows of "
        f"which the last has fewer than {shares}; give more data, or data.limit and fewer --steps"
    )


def shares_of(settings: Settings) -> int:
    """Which must not depend on the ranks."""
    if settings.train.shares == "auto":
        raise LightworkError("train.shares=auto depends on the ranks; give a number")
    return settings.train.shares


def occasions(settings: Settings) -> Occasions:
    """What the steps of a run with these settings hold."""
    train, shares = settings.train, shares_of(settings)
    assert train.micro_batch_tokens != "auto", "it was given with the others"
    lengths = prepare(settings).train.column("tokens")
    left = train.max_steps or 0
    short, accumulating, epoch = 0, 0, 0
    while left > 0:
        for windows in list(EpochPlan(train.seed, epoch, lengths, train.batch_size))[:left]:
            round_to = round_to_on(settings.launch.device)
            parts = cut(windows, lengths[windows], shares, train.micro_batch_tokens, round_to)
            short += len(windows) < shares and not all(parts)
            accumulating += any(len(part) > 1 for part in parts)
            left -= 1
        epoch += 1
    dropout = settings.model.dropout
    return Occasions(short, accumulating, len(np.unique(lengths)), dropout is None or dropout > 0)


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    ranks: int
    wall_s: float
    digests: dict[str, str]
    """SHA-256 of each of ``FILES`` in the checkpoint of the last step."""
    clipped: int
    """Steps whose gradient was longer than allowed."""
    fingerprint: dict[str, Any]


def train(
    settings: Settings, path: Path, overrides: Sequence[str], ranks: int, timeout_s: float
) -> Result:
    """Run ``lightwork train`` and read what it left.

    Raises:
        LightworkError: it failed.
    """
    run = path.parent / f"ranks{ranks}"
    log = path.parent / f"ranks{ranks}.txt"
    command = [sys.executable, "-m", "lightwork", "train", str(path), *overrides]
    code, wall_s, _ = run_command(
        [*command, "--ranks", str(ranks), "--run", str(run)], log, timeout_s
    )
    if code != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise LightworkError(f"{ranks} ranks ended with {code}; the end of their output:\n{tail}")
    steps = settings.train.max_steps or 0
    checkpoint = run / f"checkpoints/step-{steps:06d}"
    lines = (run / "metrics/rank0.jsonl").read_text(encoding="utf-8").splitlines()
    norms = [json.loads(line)["grad_norm"] for line in lines]
    most = settings.train.max_grad_norm
    return Result(
        ranks=ranks,
        wall_s=wall_s,
        digests={name: file_digest(checkpoint / file) for name, file in FILES.items()},
        clipped=0 if most is None else sum(norm > most for norm in norms),
        fingerprint=json.loads((checkpoint / "state.json").read_bytes())["fingerprint"],
    )


def problems(results: Sequence[Result], held: Occasions) -> list[str]:
    """Why nothing is proven; empty where it is."""
    found = [f"not in the steps: {what}" for what in held.missing()]
    if not all(result.clipped for result in results):
        found.append("not in the steps: a gradient that was clipped")
    if len({result.ranks for result in results}) < 2:
        found.append("one number of ranks has nothing to be compared with")
    first = results[0]
    for other in results[1:]:
        for name, digest in other.digests.items():
            if digest != first.digests[name]:
                found.append(f"{other.ranks} and {first.ranks} ranks differ in the {name}")
        changed = [k for k, v in other.fingerprint.items() if v != first.fingerprint.get(k)]
        if changed:
            found.append(f"{other.ranks} ranks computed otherwise: {', '.join(changed)}")
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.exactness", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    add = made.add_argument
    add("overrides", nargs="*", metavar="SECTION.KEY=VALUE", help="settings of all runs")
    add("--data", type=Path, help="file of training questions; otherwise the built-in sample")
    add("--ranks", type=numbers, default=[1, 2, 3, 4, 8], help="numbers of processes")
    add("--steps", type=int, default=20)
    add("--timeout-minutes", type=float, default=30.0, help="for one run")
    add("--work", type=Path, help="a folder to keep the runs in; otherwise they are deleted")
    return made


def main(given: list[str] | None = None) -> None:
    """Train with each number of processes and compare."""
    arguments = parser().parse_intermixed_args(given)
    try:
        if arguments.data is not None:
            check_files("--data", [str(arguments.data)])
        with _working(arguments.work) as folder:
            found = compare(arguments, folder)
    except LightworkError as error:
        sys.exit(f"exactness: {error}")
    if found:
        sys.exit("\n".join(f"exactness: {problem}" for problem in found))


@contextmanager
def _working(kept: Path | None) -> Iterator[Path]:
    """A new folder for the runs; inside ``kept``, if there is one, it stays."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="exact-", dir=kept)).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="exact-") as folder:
        yield Path(folder)


def compare(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Print a row for each number of processes; returns why nothing is proven, or nothing."""
    train_section = {**SETTINGS["train"], "max_steps": arguments.steps}
    path = write_settings(folder, {**SETTINGS, "train": train_section}, arguments.data)
    overrides = list(arguments.overrides)
    if not any(override.startswith("data.limit=") for override in overrides):
        overrides.append(limit(path, overrides))
    settings = load_settings(path, overrides)
    held = occasions(settings)
    print(machine(), versions())
    print(
        f"{settings.train.max_steps} steps of {settings.train.batch_size} windows in "
        f"{shares_of(settings)} shares; {held.accumulating} with several micro-batches in a share, "
        f"{held.short_batches} with fewer windows than shares, windows of {held.lengths} lengths, "
        f"dropout {settings.model.dropout}; {' '.join(overrides)}"
    )
    print(
        "| ranks | seconds | clipped steps | weights | optimizer |\n| --: | --: | --: | --- | --- |"
    )
    results = []
    for ranks in arguments.ranks:
        result = train(settings, path, overrides, ranks, arguments.timeout_minutes * 60)
        results.append(result)
        digests = " | ".join(f"`{digest[:16]}`" for digest in result.digests.values())
        print(f"| {ranks} | {result.wall_s:.0f} | {result.clipped} | {digests} |", flush=True)
    found = problems(results, held)
    if not found:
        for name, digest in results[0].digests.items():
            print(f"one SHA-256 of the {name}: {digest}")
    return found


if __name__ == "__main__":
    main()
