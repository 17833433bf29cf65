"""The newest steps of a run as all ranks recorded them, side by side.

Only the ends of the files are read, so that a run of any length is read in the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import RunError
from lightwork.telemetry.lines import json_lines
from lightwork.telemetry.records import STEP_PARTS, VERSION

TAIL_BYTES = 2 << 20
"""Read of each rank: some two thousand steps."""
FIRST_STEPS = 3
"""Of a start, these form buckets, warm up caches and compile; they tell nothing of the others."""
FEWEST_STEPS = 8

Numbers = NDArray[np.float64]
FIELDS = (
    *(f"{part}_s" for part in STEP_PARTS),
    "step_s", "duties_s", "busy_s", "hidden_sync_s", "sent_bytes", "real_tokens", "padded_tokens",
    "micro_batches", "windows", "batch_windows", "rank_loss", "loss", "grad_norm",
)  # fmt: skip


@dataclass(frozen=True)
class Steps:
    """What ``ranks`` ranks recorded of the same steps: each field ``[ranks, steps]``."""

    numbers: NDArray[np.int64]
    """The steps, ``[steps]``, in order."""
    values: dict[str, Numbers]

    @property
    def ranks(self) -> int:
        """How many recorded them."""
        return len(self.values["step_s"])

    def __getitem__(self, name: str) -> Numbers:
        return self.values[name]


def read_steps(run: Path, tail_bytes: int = TAIL_BYTES) -> Steps:
    """The newest steps of the newest start that all its ranks have recorded.

    Raises RunError where there are too few to tell anything, or an older version wrote them.
    """
    files = sorted(run.glob("metrics/rank*.jsonl"), key=lambda path: int(path.stem[4:]))
    lines = [json_lines(path, tail_bytes) for path in files]
    newest = max((line["attempt"] for rank in lines for line in rank[-1:]), default=0)
    kept = [
        {line["step"]: line for line in rank if line["attempt"] == newest}
        for rank in lines
        if rank and rank[-1]["attempt"] == newest
    ]
    common = sorted(set.intersection(*map(set, kept))) if kept else []
    whole_start = any(len(rank) > len(own) for rank, own in zip(lines, kept, strict=False))
    if common and (whole_start or common[0] == 1 or len(common) < FIRST_STEPS * 20):
        common = common[FIRST_STEPS:]
    if len(common) < FEWEST_STEPS:
        raise RunError(
            f"{run} has recorded {len(common)} steps of its newest start that tell something; "
            f"{FEWEST_STEPS} are needed, and its first {FIRST_STEPS} do not count"
        )
    if any(rank[step].get("version") != VERSION for rank in kept for step in common):
        raise RunError(
            f"the records of {run} were written by another version of lightwork, which did not "
            "tell waits from work; they are explained by that version"
        )
    return Steps(
        np.array(common, np.int64),
        {name: np.array([[_number(rank[step], name) for step in common] for rank in kept])
         for name in FIELDS},
    )  # fmt: skip


def _number(line: dict[str, Any], name: str) -> float:
    value = line[name]
    return np.nan if value is None else float(value)
