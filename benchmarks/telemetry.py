"""What it costs to tell where the time goes: ``python -m benchmarks.telemetry``.

Steps in which nothing is computed and nothing sent: only their parts are timed, and their records
made, written and drawn, as on rank 0 of a training. The same steps with several messages each tell
what a bucket adds; samples of the processor are taken by themselves. Medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.launching import numbers
from benchmarks.machine import machine, versions
from lightwork.comm.message import Transfer
from lightwork.data.loader import Piece, Position, Work
from lightwork.sync.buckets import under_way_s
from lightwork.sync.contract import SyncResult
from lightwork.telemetry.profiling import Profile
from lightwork.telemetry.recorder import MetricsFile
from lightwork.telemetry.sampling import Sampler
from lightwork.telemetry.sinks import Place, Sinks
from lightwork.telemetry.timing import StepClock
from lightwork.train.control import Agreement, Report
from lightwork.train.loop import Telemetry, record_of
from lightwork.train.pace import Pace
from lightwork.train.step import Outcome

GOAL_STEP_US, GOAL_BUCKET_US = 300.0, 20.0
PARTS = ("copy", "forward", "backward", "sync", "optimizer", "control", "optimizer")
CPU = torch.device("cpu")


def work_of(step: int) -> Work:
    """A share of 16 windows in two micro-batches."""
    pieces = [Piece(0, i, 0, np.zeros(8, np.int32), 64, None) for i in range(2)]
    return Work(step, Position(0, step), pieces, 16, 16.0, 900, 1024, 8192)


def one_step(step: int, buckets: int, telemetry: Telemetry, pace: Pace) -> None:
    """All that telemetry does for one step."""
    clock = StepClock(CPU)
    for part in PARTS:
        with clock.part(part):
            pass
    now = time.monotonic()
    transfers = [Transfer(now, now, 1) for _ in range(buckets)]
    sync = SyncResult(
        sent_bytes=buckets,
        messages=buckets,
        own_norm=None,
        hidden_s=under_way_s(transfers, now),
        under_way_s=under_way_s(transfers),
        ready_s=tuple(transfer.started_s for transfer in transfers),
    )
    agreement = Agreement((Report(busy_s=pace.busy_s()), Report()))
    pace.met()
    clock.stop()
    work = work_of(step)
    outcome = Outcome(work, 1.0, 1.0, 1.0, sync, agreement, applied=True, loss_scale=1.0)
    record = record_of(telemetry, outcome, 1e-4, clock.started_s)(clock.seconds())
    telemetry.metrics.write(record)
    telemetry.sinks.write(record)


def step_us(buckets: int, steps: int) -> float:
    """Microseconds of the median step."""
    with TemporaryDirectory(prefix="telemetry-") as folder:
        metrics, place = MetricsFile(Path(folder), 0), Place(Path(folder), "cost", 0, 1)
        with Sinks(["tensorboard"], place) as sinks:
            profile = Profile(range(0), Path(folder), 0, range(0))
            telemetry = Telemetry(metrics, sinks, Sampler(None), profile, None, 10, 0, 1, CPU)
            pace, seconds = Pace(), []
            for step in range(steps):
                began_s = time.perf_counter()
                one_step(step, buckets, telemetry, pace)
                seconds.append(time.perf_counter() - began_s)
        metrics.close()
    return 1e6 * statistics.median(seconds)


def sample_us(samples: int) -> float:
    """Microseconds of the median sample, of which there is at most one a second."""
    sampler, seconds = Sampler(None, every_s=0.0), []
    for _ in range(samples):
        began_s = time.perf_counter()
        sampler.sample()
        seconds.append(time.perf_counter() - began_s)
    return 1e6 * statistics.median(seconds)


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--buckets", type=numbers, default=[0, 20], help="two numbers of messages")
    asked = parser.parse_args(given)
    few, many = min(asked.buckets), max(asked.buckets)
    without, with_many = step_us(few, asked.steps), step_us(many, asked.steps)
    each = (with_many - without) / max(many - few, 1)
    for words, value, goal in (
        (f"a step with {few} messages", without, GOAL_STEP_US),
        ("each further message", each, GOAL_BUCKET_US),
        ("a sample, once a second", sample_us(max(asked.steps // 10, 1)), GOAL_STEP_US),
    ):
        verdict = "met" if value <= goal else "missed"
        print(f"{words}: {value:.1f} us; goal at most {goal:g}: {verdict}")
    print(", ".join(f"{name} {value}" for name, value in {**machine(), **versions()}.items()))


if __name__ == "__main__":
    main()
