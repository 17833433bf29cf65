"""What every run in a folder has done, read from its files without torch and without a wait.

A run folder may be in the middle of a training, or be what a kill left of it: what cannot be known
is None, and only a folder without a readable ``run.json`` is no run.
"""

from __future__ import annotations

import fcntl
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from lightwork.errors import RunError, SettingsError
from lightwork.report.timeline import best_step, checkpoint_steps
from lightwork.settings import RunRecord, locate, named, read_run
from lightwork.settings.run_folder import RECORD
from lightwork.settings.yaml_text import Given, parse, read_file
from lightwork.telemetry.lines import (
    EVALUATIONS,
    METRIC,
    Scores,
    json_lines,
    read_evaluations,
    since_best,
)

State = Literal["finished", "stopped early", "running"]
Order = Literal["score", "name", "time"]

TAIL_BYTES = 256 << 10
"""What is read of rank 0's records: some hundred steps."""

LAST_BYTES = 16 << 10
"""What is read of another rank's records: its last steps."""

RECENT_STEPS = 100


@dataclass(frozen=True)
class Best:
    """The evaluation that ``best`` stands for."""

    step: int
    metric: str
    scores: Scores

    @property
    def score(self) -> float:
        """The one that decides."""
        return float(self.scores[self.metric])


@dataclass(frozen=True)
class RunFacts:
    """One run, as far as its folder tells."""

    name: str
    folder: Path
    run_id: str
    identity: dict[str, Any]
    """Settings that change what is learned, ``train.precision`` as it was chosen."""
    state: State
    """``finished`` too where ``train.patience`` ended it; ``running``: a training holds it."""
    step: int
    """Updates done on the timeline of the newest start."""
    planned_steps: int | None
    """None: no start has read the data yet."""
    best: Best | None
    batch_windows_per_s: float | None
    """Median over the recent steps of the newest start."""
    ranks: int
    """How many wrote records in the newest start."""
    written_unix_s: float

    def as_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return {**asdict(self), "folder": str(self.folder)}


@dataclass(frozen=True)
class Problem:
    """A run folder that cannot be read, and why."""

    name: str
    folder: Path
    reason: str


def read_runs(folder: Path) -> tuple[list[RunFacts], list[Problem]]:
    """The runs in ``folder``, or the run that it is, by name; and the damaged ones.

    Raises RunError where there is no run at all, or where the one that was named is damaged.
    """
    label = named(str(folder), folder.absolute())
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise RunError(f"{label} {what}; name the folder of your runs, or of one run")
    if _holds_run(folder):
        return [read_facts(folder)], []
    try:
        found = sorted(path for path in folder.iterdir() if _holds_run(path))
    except OSError as error:
        raise RunError(f"{label} cannot be read: {error.strerror}") from None
    if not found:
        raise RunError(
            f"{label} holds no runs yet; start one with: lightwork train SETTINGS.yaml, or name "
            "another folder"
        )
    runs: list[RunFacts] = []
    problems: list[Problem] = []
    for path in found:
        try:
            runs.append(read_facts(path))
        except RunError as error:
            problems.append(Problem(path.name, path, str(error)))
    return runs, problems


def read_facts(run: Path) -> RunFacts:
    """What the folder of one run tells; RunError where it is none or cannot be read."""
    record = read_run(run)
    if not isinstance(record.identity, dict):
        raise RunError(f"{(run / RECORD).absolute()} is damaged: it is not the record of a run")
    try:
        records = _records(run / "metrics" / "rank0.jsonl", TAIL_BYTES)
        attempt = records[-1]["attempt"] if records else None
        evaluations = read_evaluations(run)
        return RunFacts(
            name=run.absolute().name,
            folder=run,
            run_id=str(record.run_id),
            identity=_identity(record),
            state=_state(run, record, evaluations),
            step=records[-1]["step"] if records else max(checkpoint_steps(run), default=0),
            planned_steps=record.total_steps,
            best=_best(run, evaluations),
            batch_windows_per_s=_speed(records, attempt),
            ranks=_ranks(run, attempt),
            written_unix_s=_written(run),
        )
    except OSError as error:
        raise RunError(f"{error.filename or run} cannot be read: {error.strerror}") from None


def in_order(runs: Iterable[RunFacts], order: Order) -> list[RunFacts]:
    """Best score first, or by name, or the last written first; runs without a score come last."""
    by_name = sorted(runs, key=lambda run: run.name)
    if order == "name":
        return by_name
    if order == "time":
        return sorted(by_name, key=lambda run: -run.written_unix_s)
    return sorted(by_name, key=lambda run: math.inf if run.best is None else -run.best.score)


def train_files(run: Path) -> list[str]:
    """The names of the training files, by the settings beside the record; none if unreadable."""
    try:
        tree, _ = parse(read_file(locate(run)[0]), "")
    except SettingsError:
        return []
    section = tree.get("data", {})
    given = section.get("train") if isinstance(section, dict) else None
    value = given.value if isinstance(given, Given) else None
    paths = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [Path(path).name for path in paths if path]


def _identity(record: RunRecord) -> dict[str, Any]:
    """With the precision that ``auto`` became at the first start."""
    if record.precision is None:
        return record.identity
    return {**record.identity, "train.precision": record.precision}


def _holds_run(path: Path) -> bool:
    """Whether there is a record; a folder that may not be looked into is passed over."""
    try:
        return (path / RECORD).exists()
    except OSError:
        return False


def _records(path: Path, last_bytes: int) -> list[dict[str, Any]]:
    """The last records of a rank that have all that is asked of them."""
    lowest = {"step": 1, "epoch": 0, "attempt": 1}
    return [
        entry
        for entry in json_lines(path, last_bytes)
        if all(isinstance(n := entry.get(name), int) and n >= low for name, low in lowest.items())
    ]


def _state(run: Path, record: RunRecord, evaluations: dict[int, Scores]) -> State:
    if is_held(run):
        return "running"
    done = record.total_steps in checkpoint_steps(run)
    patience = record.identity.get("train.patience")
    waited = 0
    if isinstance(patience, int) and evaluations:
        metric = metric_of(evaluations.values())
        scores = [scores.get(metric, -math.inf) for _, scores in sorted(evaluations.items())]
        waited = since_best(scores)
    return "finished" if done or (patience and waited >= patience) else "stopped early"


def is_held(run: Path) -> bool:
    """Whether a training holds the run folder's lock now.

    A shared lock that is let go at once: two who ask never see each other.
    """
    try:
        with (run / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def metric_of(scores: Iterable[Scores]) -> str:
    """The score that decides among those of several evaluations: F1, or the first there is."""
    names = list(dict.fromkeys(name for group in scores for name in group))
    return METRIC if METRIC in names or not names else names[0]


def _best(run: Path, evaluations: dict[int, Scores]) -> Best | None:
    """What ``best`` points to, since that is what is evaluated and exported; else the maximum."""
    metric = metric_of(evaluations.values())
    scored = {
        step: scores
        for step, scores in sorted(evaluations.items())
        if math.isfinite(scores.get(metric, math.nan))
    }
    step = best_step(run)
    if step not in scored:
        step = max(scored, key=lambda step: scored[step][metric], default=None)
    return None if step is None else Best(step, metric, scored[step])


def _speed(records: list[dict[str, Any]], attempt: Any) -> float | None:
    rates = [entry.get("batch_windows_per_s") for entry in records if entry["attempt"] == attempt]
    known = [rate for rate in rates[-RECENT_STEPS:] if isinstance(rate, (int, float))]
    return float(median(known)) if known else None


def _ranks(run: Path, attempt: Any) -> int:
    files = (run / "metrics").glob("rank*.jsonl")
    last = [records[-1] for path in files if (records := _records(path, LAST_BYTES))]
    return sum(entry["attempt"] == attempt for entry in last)


def _written(run: Path) -> float:
    """When a file of the run was last written to."""
    names = (RECORD, EVALUATIONS, "metrics/rank*.jsonl", "checkpoints/step-*")
    times = [0.0]
    for path in (path for name in names for path in run.glob(name)):
        with suppress(FileNotFoundError):  # a training may remove a checkpoint meanwhile
            times.append(path.stat().st_mtime)
    return max(times)
