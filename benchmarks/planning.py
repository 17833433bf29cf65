"""What the plan of a large training set costs each rank: ``python -m benchmarks.planning``.

For each number of made windows, in fresh processes, one for each rank and all at the same time: how
far a rank's memory rises above what it held before its loader, and the seconds until a run that
begins there has its first batch of an epoch. ``most`` is the memory at any moment from the first
batch of an epoch to the first of the next, ``steady`` that between two batches. The windows have
lengths and weights only, in a store that is mapped into memory as in training; its pages were
touched before and do not count. Nothing is computed with the batches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.launching import environment, numbers
from benchmarks.machine import machine, versions
from benchmarks.memory import forget_peak, memory_mb
from lightwork.data.loader import Cutting, Loader
from lightwork.data.plan import assign
from lightwork.data.store import Store, StoreWriter

GOAL_BYTES = 24.0
"""For each window and rank, at any moment."""
GOAL_S = 1.0
"""Until the first batch of any epoch."""
REPEATS = 3
_WRITTEN_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Cost:
    """What one rank found."""

    most_bytes: float
    steady_bytes: float
    first_batch_s: dict[str, float]
    """By number of the epoch, as JSON has it; the median of ``REPEATS``."""


def write_store(path: Path, windows: int) -> None:
    """Lengths like those of SQuAD windows: mean about 172, a tenth above 253, at most 384."""
    random_ = np.random.default_rng(7)
    with StoreWriter(path) as writer:
        for first in range(0, windows, _WRITTEN_AT_ONCE):
            count = min(_WRITTEN_AT_ONCE, windows - first)
            lengths = np.minimum(random_.gamma(6.5, 26.0, count) + 12, 384).astype(np.int32)
            writer.append({"tokens": lengths, "weight": np.ones(count, np.float32)})
        writer.finish({})


def make_loader(store: Store, batch: int, rank: int, ranks: int) -> Loader:
    """A loader as training has it, but for the tensors, which do not depend on the size."""
    cutting = Cutting(seed=42, batch_size=batch, shares=ranks, micro_batch_tokens=8192, round_to=1)
    columns = store.column("tokens"), store.column("weight")
    return Loader(
        *columns, cutting, assign(cutting.shares, ranks)[rank], lambda windows, _: windows
    )


def measure(path: Path, batch: int, rank: int, ranks: int, epochs: Sequence[int]) -> Cost:
    """Of this process, which should have done nothing else before."""
    store = Store(path)
    for name in ("tokens", "weight"):
        store.column(name).sum()
    forget_peak()
    held_mb = memory_mb("VmRSS")
    loader = make_loader(store, batch, rank, ranks)
    per_epoch = loader.batches_per_epoch
    works = loader.work(per_epoch, per_epoch + 1)  # the last batch of epoch 0, the first of 1
    next(works)
    steady_mb = memory_mb("VmRSS")
    next(works)
    most_mb = memory_mb("VmHWM")
    seconds = {}
    for epoch in epochs:
        first = epoch * per_epoch + 1
        seconds[str(epoch)] = statistics.median(
            seconds_to_a_batch(loader, first) for _ in range(REPEATS)
        )
    each = 1e6 / len(store)
    return Cost((most_mb - held_mb) * each, (steady_mb - held_mb) * each, seconds)


def seconds_to_a_batch(loader: Loader, step: int) -> float:
    """Until a loader that starts there has the work of ``step``."""
    started_s = time.perf_counter()
    next(loader.work(step, step))
    return time.perf_counter() - started_s


def costs(windows: int, batch: int, ranks: int, epochs: Sequence[int]) -> list[Cost]:
    """What each of the ranks found, side by side in processes of their own."""
    with TemporaryDirectory(prefix="planning-") as folder:
        path = Path(folder) / "windows.safetensors"
        write_store(path, windows)
        command = [sys.executable, "-m", "benchmarks.planning", "--store", str(path)]
        command += ["--batch", str(batch), "--ranks", str(ranks)]
        command += ["--epochs", ",".join(map(str, epochs))]
        started = [
            subprocess.Popen(
                [*command, "--rank", str(rank)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            for rank in range(ranks)
        ]
        told = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit("planning: a process failed; what it said is above")
    return [Cost(**json.loads(text)) for text in told]


def row(windows: int, found: Sequence[Cost]) -> str:
    """Of the rank that needs the most."""
    seconds = [max(cost.first_batch_s[e] for cost in found) for e in found[0].first_batch_s]
    cells = [f"{windows:,}", f"{max(cost.most_bytes for cost in found):.1f}"]
    cells += [f"{max(cost.steady_bytes for cost in found):.1f}", *(f"{s:.2f}" for s in seconds)]
    return f"| {' | '.join(cells)} |"


def verdicts(found: Sequence[Cost]) -> list[str]:
    """Each goal, what came of it and whether that is met."""
    most = max(cost.most_bytes for cost in found)
    slowest_s = max(s for cost in found for s in cost.first_batch_s.values())
    return [
        f"memory: {most:.1f} bytes a window and rank at most; goal {GOAL_BYTES:g}: "
        f"{'met' if most <= GOAL_BYTES else 'missed'}",
        f"first batch of an epoch: after {slowest_s:.2f} s at most; goal {GOAL_S:g} s: "
        f"{'met' if slowest_s <= GOAL_S else 'missed'}",
    ]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    add = made.add_argument
    add("--windows", type=numbers, default=[250_000, 500_000, 1_000_000, 2_000_000])
    add("--epochs", type=numbers, default=[0, 1, 50, 1000])
    add("--ranks", type=int, default=2)
    add("--batch", type=int, default=32, help="windows behind one update, over all ranks")
    add("--store", type=Path, help=argparse.SUPPRESS)
    add("--rank", type=int, help=argparse.SUPPRESS)
    return made


def main(given: list[str] | None = None) -> None:
    """Measure all sizes, or one rank for the process that does."""
    arguments = parser().parse_args(given)
    shape = (arguments.batch, arguments.ranks, arguments.epochs)
    if arguments.store is not None:
        batch, ranks, epochs = shape
        print(json.dumps(asdict(measure(arguments.store, batch, arguments.rank, ranks, epochs))))
        return
    print(machine(), versions())
    head = ["windows", "bytes a window and rank, most", "steady"]
    head += [f"first batch of epoch {epoch}, s" for epoch in arguments.epochs]
    print(f"| {' | '.join(head)} |\n|{' --: |' * len(head)}")
    every = []
    for windows in arguments.windows:
        found = costs(windows, *shape)
        every += found
        print(row(windows, found), flush=True)
    print("\n".join(verdicts(every)))
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
