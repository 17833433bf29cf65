"""What ``lightwork explain`` costs on a long run: ``python -m benchmarks.explaining``.

Writes the records of a run of many steps on several ranks, each line as a training writes it, and
measures the command on it: seconds from start to end, and the most memory that it held.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.machine import machine, versions
from benchmarks.racing import run_command
from lightwork.errors import LightworkError
from lightwork.report.live import COST_S, Live
from lightwork.settings import load_settings, open_run
from lightwork.telemetry.records import StepRecord

GOAL_S, GOAL_BYTES = 10.0, 500e6
TIMEOUT_S = 600.0
WINDOWS = 32


def write_run_folder(run: Path, steps: int, ranks: int) -> int:
    """A run of ``steps`` steps whose last rank is a half slower; returns the bytes of its records.

    Twelve messages a step, as a small encoder has.
    """
    settings, train = run.parent / "settings.yaml", run.parent / "train.json"
    train.write_text("{}")
    values = {"data": {"train": str(train)}, "model": {"source": "scratch"}}
    settings.write_text(json.dumps(values))  # JSON is YAML
    run.mkdir(parents=True)
    open_run(run, load_settings(settings))
    (run / "metrics").mkdir()
    noise = random.Random(1)
    total = 0
    for rank in range(ranks):
        record = replace(
            _record(rank, 1.5 if rank == ranks - 1 else 1.0), batch_windows=WINDOWS * ranks
        )
        with (run / f"metrics/rank{rank}.jsonl").open("w") as file:
            for step in range(1, steps + 1):
                own = replace(record, step=step, grad_norm=noise.lognormvariate(0, 0.3))
                total += file.write(json.dumps(own.as_json()) + "\n")
    return total


def _record(rank: int, factor: float) -> StepRecord:
    """A step of which this rank's work takes ``factor`` times as long as usual."""
    forward_s, backward_s = 0.1034567 * factor, 0.2134567 * factor
    busy_s = forward_s + backward_s
    return StepRecord(
        step=1, epoch=0, rank=rank, attempt=1, time_unix_s=1780000000.123456,
        loss=1.23456789012345, rank_loss=1.23456789012345, grad_norm=1.0, rank_grad_norm=None,
        learning_rate=2.9876543e-05, loss_scale=1.0, applied=True, windows=WINDOWS, micro_batches=2,
        batch_windows=WINDOWS, real_tokens=5123, padded_tokens=5342, duties_s=1.2345678e-05,
        step_s=0.4934567, data_s=1.2345678e-05, copy_s=1.2345678e-04, sync_s=0.0012345678,
        optimizer_s=0.0123456789, wait_s=0.4752 - busy_s, transfer_s=0.0012345678,
        other_s=0.0023456789, busy_s=busy_s, slowest_rank=7, slowest_busy_s=0.4752,
        hidden_sync_s=0.0434567, sent_bytes=90_868_736, transfer_bytes_per_s=1234567890.12345,
        bucket_ready_s=[round(0.2 + 0.0123456 * place, 6) for place in range(12)],
        memory_bytes=1_234_567_890, memory_total_bytes=80_000_000_000, private_bytes=987_654_321,
        worst_loss=1.56789012345678, forward_s=forward_s, backward_s=backward_s,
    )  # fmt: skip


def look_cost_s(run: Path) -> float:
    """What one look of the thread costs that says the verdict while a run trains."""
    seconds = []
    for _ in range(5):
        live, began_s = Live(run, attempt=1), time.thread_time()
        live.look()
        seconds.append(time.thread_time() - began_s)
        assert live.last_step, "it has not looked"
    return statistics.median(seconds)


def main(given: Sequence[str] | None = None) -> None:
    """Write, explain, print; ends with 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explaining", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=8)
    asked = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="explaining-") as folder:
        run, log = Path(folder) / "run", Path(folder) / "log.txt"
        size = write_run_folder(run, asked.steps, asked.ranks)
        look_s = look_cost_s(run)
        command = [sys.executable, "-m", "lightwork", "explain", str(run)]
        try:
            code, wall_s, peak_bytes = run_command(command, log, TIMEOUT_S)
        except LightworkError as error:
            sys.exit(f"explaining: {error}")
        said = log.read_text(encoding="utf-8", errors="replace")
    if code or f"straggler: rank {asked.ranks - 1} " not in said:
        sys.exit(f"explaining: ended with {code} and said:\n{said}")
    print(f"a look while it trains: {1000 * look_s:.1f} ms, so once in {look_s / COST_S:.0f} steps")
    missed = False
    print(f"{asked.steps:,} steps on {asked.ranks} ranks, {size / 1e6:,.0f} MB of records")
    for words, value, goal, unit in (
        ("from start to end", wall_s, GOAL_S, "s"),
        ("memory", peak_bytes / 1e6, GOAL_BYTES / 1e6, "MB"),
    ):
        met = value <= goal
        missed = missed or not met
        print(f"{words}: {value:.1f} {unit}; goal at most {goal:g}: {'met' if met else 'missed'}")
    print(", ".join(f"{name} {value}" for name, value in {**machine(), **versions()}.items()))
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
