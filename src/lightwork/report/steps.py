"""The newest steps of a run as all ranks recorded them, side by side.

Only the ends of the files are read, so that a run of any length is read in the same time; of rank
0, what it takes to find a single step out of line (:class:`Course`) is read of all its steps.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import LightworkError, RunError
from lightwork.settings import load_settings
from lightwork.settings.run_folder import SETTINGS
from lightwork.telemetry.lines import each_line, json_lines
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
NEWER_FIELDS = ("memory_bytes", "memory_total_bytes", "private_bytes", "worst_loss")
"""Which lines of this version may lack; nan there."""
MESSAGES = ("messages", "first_ready_s")
"""How many of gradients a step sends, and when the first can set out."""


@dataclass(frozen=True)
class Choices:
    """Settings of the run that a remedy depends on; None where they cannot be read."""

    strategy: str | None = None
    rows: str | None = None


@dataclass(frozen=True)
class Steps:
    """What ``ranks`` ranks recorded of the same steps: each field ``[ranks, steps]``."""

    numbers: NDArray[np.int64]
    """The steps, ``[steps]``, in order."""
    values: dict[str, Numbers]
    attempt: int = 0
    """Of which start of the run."""
    far_windows: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """By rank and step: the windows of a micro-batch whose loss is far above the batch's."""
    choices: Choices = Choices()
    """What the run was told; whoever reads its settings puts them here."""

    @property
    def ranks(self) -> int:
        """How many recorded them."""
        return len(self.values["step_s"])

    def __getitem__(self, name: str) -> Numbers:
        return self.values[name]


@dataclass(frozen=True)
class Course:
    """What all ranks agree on, of every step that a run has recorded: ``[steps]`` each."""

    numbers: NDArray[np.int64]
    loss: Numbers
    grad_norm: Numbers
    batch_windows: Numbers


def read_steps(run: Path, tail_bytes: int = TAIL_BYTES) -> Steps:
    """The newest steps of the newest start that all its ranks have recorded.

    Those that were being looked into (``profiled``) on any rank are left out: they took longer for
    it. Raises RunError where there are too few to tell anything, or an older version wrote them.
    """
    files = sorted(run.glob("metrics/rank*.jsonl"), key=lambda path: int(path.stem[4:]))
    if not files:
        raise RunError(f"{run} has no records of steps (metrics/rank<N>.jsonl)")
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
    common = [step for step in common if not any(rank[step].get("profiled") for rank in kept)]
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
    _check_whole(run, [rank[common[-1]] for rank in kept])
    return _side_by_side([[rank[step] for step in common] for rank in kept], newest)


def _check_whole(run: Path, lines: list[dict[str, Any]]) -> None:
    """Raise RunError where a rank is not among those whose ``lines`` of one step these are."""
    found, whole = sum(line["windows"] for line in lines), lines[0]["batch_windows"]
    if found != whole:
        raise RunError(
            f"the records of {run} are not whole: of the {whole} windows of step "
            f"{lines[0]['step']}, those of {len(lines)} ranks hold {found}. Some "
            "metrics/rank<N>.jsonl is missing or damaged, so ranks cannot be compared"
        )


def _side_by_side(lines: list[list[dict[str, Any]]], attempt: int) -> Steps:
    """``lines``: of each rank, those of the same steps."""
    table = {name: [[_number(line[name]) for line in rank] for rank in lines] for name in FIELDS}
    for name in NEWER_FIELDS:
        table[name] = [[_number(line.get(name)) for line in rank] for rank in lines]
    ready = [[line.get("bucket_ready_s", []) for line in rank] for rank in lines]
    table["messages"] = [[float(len(moments)) for moments in rank] for rank in ready]
    table["first_ready_s"] = [[min(moments, default=np.nan) for moments in rank] for rank in ready]
    far = {
        (rank, line["step"]): line["worst_windows"]
        for rank, own in enumerate(lines)
        for line in own
        if line.get("worst_windows")
    }
    numbers = np.array([line["step"] for line in lines[0]], np.int64)
    values = {name: np.array(rows, np.float64) for name, rows in table.items()}
    return Steps(numbers, values, attempt, far)


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def choices_of(run: Path) -> Choices:
    """What the settings beside the records say; nothing where there are none, as by hand."""
    with suppress(LightworkError, OSError):
        sync = load_settings(run / SETTINGS).sync
        return Choices(sync.strategy, sync.rows)
    return Choices()


def read_course(run: Path) -> Course:
    """Loss and gradient norm of all steps; of a step that was done again, as it was the last time.

    Reads the file of rank 0 line by line, some ten thousand a second of work.
    """
    found: dict[int, list[float]] = {}
    for line in each_line(run / "metrics/rank0.jsonl"):
        if line.get("applied", True):
            names = ("loss", "grad_norm", "batch_windows")
            found[line["step"]] = [_number(line[name]) for name in names]
    numbers = np.array(sorted(found), np.int64)
    values = np.array([found[step] for step in numbers.tolist()], np.float64).reshape(-1, 3)
    return Course(numbers, *values.T)
