"""The checkpoints of a run: what each is, and whether it verifies; read without torch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.filesize import decimal

from lightwork.errors import RunError
from lightwork.manifest import MANIFEST, problem_of, read_manifest
from lightwork.report.listing import Column, minute, printable, show_columns
from lightwork.report.runs import metric_of
from lightwork.report.timeline import best_step, checkpoint_folders
from lightwork.settings import named, read_run
from lightwork.telemetry.lines import read_evaluations


@dataclass(frozen=True)
class CheckpointFacts:
    """One checkpoint, as far as its folder and the run's evaluations tell."""

    step: int
    folder: Path
    written_unix_s: float
    size_bytes: int
    metric: str
    score: float | None
    """None: it was not evaluated."""
    best: bool
    """Whether ``best`` leads to it."""
    problem: str | None
    """What is wrong with it; None where every file verifies."""

    def as_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return {**asdict(self), "folder": str(self.folder)}


def read_checkpoints(run: Path) -> list[CheckpointFacts]:
    """The checkpoints in the folder ``run``, oldest first; reads every byte of them.

    Raises RunError where that is no run, or has none.
    """
    run_id = read_run(run).run_id
    found = []
    for step, folder in checkpoint_folders(run):
        with suppress(FileNotFoundError):  # a training may delete it meanwhile
            found.append(_facts(run, run_id, step, folder))
    if not found:
        raise RunError(
            f"the run folder {named(str(run), run.absolute())} has no checkpoint inside yet; "
            f"train first: lightwork train {run}"
        )
    return found


def goes_on(found: Sequence[CheckpointFacts]) -> bool:
    """Whether a training would go on from the newest of them."""
    return found[-1].problem is None


def show(console: Console, found: Sequence[CheckpointFacts]) -> None:
    """Print a table of them, oldest first."""
    metric = found[0].metric
    columns = [
        Column("step", [str(facts.step) for facts in found], number=True),
        Column("written", [minute(facts.written_unix_s) for facts in found]),
        Column("size", [decimal(facts.size_bytes) for facts in found], number=True),
        Column(metric, [_score(facts.score) for facts in found], number=True),
        Column("best", ["best" if facts.best else "" for facts in found]),
        Column("state", [printable(facts.problem or "verifies") for facts in found]),
    ]
    show_columns(console, columns)


def _facts(run: Path, run_id: str, step: int, folder: Path) -> CheckpointFacts:
    evaluations = read_evaluations(run)
    metric = metric_of(evaluations.values())
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    last = folder / MANIFEST
    return CheckpointFacts(
        step=step,
        folder=folder,
        written_unix_s=(last if last.exists() else folder).stat().st_mtime,
        size_bytes=sum(file.st_size for file in files),
        metric=metric,
        score=evaluations.get(step, {}).get(metric),
        best=step == best_step(run),
        problem=problem_of(folder) or _of_another_run(run_id, folder),
    )


def _of_another_run(run_id: str, folder: Path) -> str | None:
    """A word for a whole checkpoint that a training passes over."""
    return None if read_manifest(folder).get("run") in (run_id, None) else "is of another run"


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.2f}"
