"""Records of steps made by hand: runs that are held up in a known way."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from lightwork.telemetry.records import STEP_PARTS, VERSION

CALM = {"forward": 0.10, "backward": 0.20, "sync": 0.005, "optimizer": 0.02, "other": 0.005}
TOKENS, WINDOWS = 2000, 16


def write_steps(
    run: Path,
    ranks: list[dict[str, Any]],
    count: int = 60,
    attempt: int = 1,
    seed: int = 1,
    first: int = 1,
) -> None:
    """``count`` steps from ``first`` on; a rank's dictionary overrides parts and fields."""
    noise, whole = random.Random(seed), {"batch_windows": WINDOWS * len(ranks)}
    (run / "metrics").mkdir(parents=True, exist_ok=True)
    for rank, own in enumerate(ranks):
        with (run / f"metrics/rank{rank}.jsonl").open("a") as file:
            for step in range(first, first + count):
                file.write(json.dumps(_record(step, rank, attempt, whole | own, noise)) + "\n")


def _record(
    step: int, rank: int, attempt: int, own: dict[str, Any], noise: random.Random
) -> dict[str, Any]:
    jitter = noise.uniform(0.97, 1.03)
    given = {part: own.get(part, CALM.get(part, 0.0)) for part in STEP_PARTS}
    seconds = {part: value(step) if callable(value) else value for part, value in given.items()}
    parts = {f"{part}_s": jitter * value for part, value in seconds.items()}
    work_s = sum(v for name, v in parts.items() if name not in ("wait_s", "transfer_s"))
    fields: dict[str, Any] = {
        "version": VERSION, "step": step, "rank": rank, "attempt": attempt,
        "step_s": sum(parts.values()), "duties_s": 0.0, "busy_s": work_s, "hidden_sync_s": 0.0,
        "sent_bytes": 90_000_000, "real_tokens": TOKENS - 50, "padded_tokens": TOKENS,
        "micro_batches": 2, "windows": WINDOWS, "batch_windows": 0, "rank_loss": 2.0 * jitter,
        "loss": 2.0, "grad_norm": 1.0, "memory_bytes": 10**9, "memory_total_bytes": None,
        "private_bytes": 5 * 10**8, "worst_loss": 2.5, "worst_windows": [], "profiled": False,
        "bucket_ready_s": [0.15, 0.25, 0.3],
    }  # fmt: skip
    values = {name: own[name] for name in fields if name in own}
    made = {name: value(step) if callable(value) else value for name, value in values.items()}
    return {**fields, **parts, **made}
