"""How long training stands still for a checkpoint: ``python -m benchmarks.saving``.

A model with the state of AdamW is saved in two ways in alternation. Blocking, training would wait
for the whole: written, put on the disk, read back, verified, older ones deleted. As lightwork does
it, training waits for a copy in memory, and the rest is done beside the next steps.
Both times are taken, and what a training step takes alone and while a checkpoint is being written.
The memory for copies is had when the first is made, which takes longer and is shown by itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.launching import MODEL
from benchmarks.machine import machine, versions
from benchmarks.recomputing import Learner, random_batch
from lightwork.assembly.resuming import checkpoint_parts
from lightwork.data.loader import Cutting, Loader
from lightwork.tasks.extractive.model import ScratchShape, build_model, load_tokenizer
from lightwork.train.checkpoint import Checkpoints, Part
from lightwork.train.writer import Writer

GOAL = 0.1
"""Of the time that a blocking save takes."""


@dataclass(frozen=True)
class Pair:
    """Both ways to save, once each."""

    blocking_s: float
    still_s: float
    """Training stands still, until the copies are made."""
    written_s: float
    """Until the checkpoint that is written beside training is done, and the step meanwhile."""
    step_s: float
    step_beside_s: float | None
    """None: no step ended before the checkpoint was written."""


class Standing:
    """A stepper of which only the state is asked for."""

    def state(self) -> dict[str, float]:
        """As of a run in float32."""
        return {"skipped_steps": 0, "loss_scale": 1.0, "steady_steps": 0}


def parts_of(learner: Learner, tokenizer: Any) -> Callable[[int], Iterable[Part]]:
    """What a training would save of ``learner``, copied."""
    cutting = Cutting(seed=42, batch_size=1, shares=1, micro_batch_tokens=8192, round_to=1)
    lengths, weights = np.ones(1, np.int32), np.ones(1, np.float32)
    loader = Loader(lengths, weights, cutting, range(1), lambda windows, _: windows)
    stepper: Any = Standing()
    facts: dict[str, Any] = {"fingerprint": {}}
    parts = checkpoint_parts(learner.module, tokenizer, learner.update, loader, stepper, facts)
    return lambda step: parts(step, {}, None)


def measure(learner: Learner, parts: Callable[[int], Iterable[Part]], folder: Path) -> Pair:
    """Save twice in ``folder``, with steps in between."""
    checkpoints = Checkpoints(folder)
    save = partial(checkpoints.save, keep=1)
    step = max((step for step, _ in checkpoints.all()), default=0) + 1
    taken = parts(step)
    blocking_s = _seconds(lambda: save(step, taken))
    step_s = learner.step().seconds
    writer = Writer(save)
    started_s = time.perf_counter()
    still_s = _seconds(lambda: writer.begin(step + 1, parts(step + 1)))
    beside = []
    while writer.writing:
        seconds = learner.step().seconds
        if writer.writing:
            beside.append(seconds)
    problem = writer.wait()
    assert problem is None, problem
    written_s = time.perf_counter() - started_s
    return Pair(
        blocking_s, still_s, written_s, step_s, statistics.median(beside) if beside else None
    )


def _seconds(work: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


def made_learner(arguments: argparse.Namespace) -> tuple[Learner, Any]:
    """A model that trains on full windows, with its tokenizer."""
    tokenizer = load_tokenizer(arguments.model)
    torch.manual_seed(0)
    module = build_model(
        arguments.model,
        dropout=None,
        weights=True,
        scratch=ScratchShape(),
        vocabulary=len(tokenizer),
    ).to(arguments.device)
    shape = (arguments.windows, arguments.tokens)
    return Learner(module, random_batch(*shape, len(tokenizer), arguments.device)), tokenizer


def shown(name: str, pair: Pair) -> str:
    """One line."""
    beside = "-" if pair.step_beside_s is None else f"{pair.step_beside_s:.2f}"
    return (
        f"{name}: blocking {pair.blocking_s:.2f} s; beside training {pair.still_s:.3f} s of "
        f"standing still, written after {pair.written_s:.2f} s; a step {pair.step_s:.2f} s alone, "
        f"{beside} s beside it"
    )


def verdict(pairs: Sequence[Pair]) -> str:
    """The ratio of all pairs, and whether the goal is met."""
    ratios = [pair.still_s / pair.blocking_s for pair in pairs]
    median = statistics.median(ratios)
    return (
        f"standing still, beside / blocking: median {median:.3f} ({min(ratios):.3f} - "
        f"{max(ratios):.3f}); goal {GOAL:g}: {'met' if median <= GOAL else 'missed'}"
    )


def parsed(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: temporary")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    """Measure alternating pairs and print them with their ratios."""
    arguments = parsed(given)
    torch.set_num_threads(arguments.threads)
    print(machine(), versions())
    learner, tokenizer = made_learner(arguments)
    learner.step()  # the state of the optimizer comes to be
    parts = parts_of(learner, tokenizer)
    print(f"the first copy: {_seconds(lambda: parts(0)):.3f} s")
    pairs = []
    with TemporaryDirectory(prefix="saving-", dir=arguments.folder) as name:
        for number in range(arguments.pairs):
            pairs.append(measure(learner, parts, Path(name)))
            print(shown(f"pair {number + 1}", pairs[-1]), flush=True)
        (_, newest) = Checkpoints(Path(name)).all()[-1]
        size = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
    print(f"a checkpoint has {size / 1e6:.0f} MB")
    print(verdict(pairs))
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
