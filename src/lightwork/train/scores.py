"""The scores of a run, one line for every evaluation, and which of them is the best."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from lightwork.telemetry.lines import (
    EVALUATIONS,
    METRIC,
    open_lines,
    read_evaluations,
    since_best,
)
from lightwork.telemetry.sinks import Sinks


@dataclass(frozen=True)
class Best:
    """The best evaluation so far."""

    step: int
    score: float


class Scores:
    """``evaluations.jsonl``: one line for every evaluation, kept over restarts."""

    def __init__(self, run: Path, sinks: Sinks | None = None) -> None:
        """``sinks``: where the scores are shown as well."""
        self._run = run
        self._sinks = sinks

    def add(self, step: int, scores: dict[str, float | int]) -> None:
        """Write down an evaluation, on the disk before this returns."""
        with open_lines(self._run / EVALUATIONS) as file:
            file.write((json.dumps({"step": step, **scores}) + "\n").encode())
            os.fsync(file.fileno())
        if self._sinks is not None:
            shown = {f"dev/{name}": score for name, score in scores.items()}
            self._sinks.scalars(shown, step, time.time())

    def until(self, step: int) -> dict[int, float]:
        """Step -> the score that decides, of all evaluations up to ``step``."""
        return {
            number: scores[METRIC]
            for number, scores in read_evaluations(self._run).items()
            if number <= step and METRIC in scores
        }

    def best(self, step: int) -> Best | None:
        """The best evaluation up to ``step``, the first of equal ones."""
        found = sorted(self.until(step).items())
        return Best(*max(found, key=lambda entry: entry[1])) if found else None

    def since_best(self, step: int) -> int:
        """Evaluations up to ``step`` after the first one with the best score."""
        return since_best([score for _, score in sorted(self.until(step).items())])
