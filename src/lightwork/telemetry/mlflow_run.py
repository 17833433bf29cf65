"""MLflow: a run for each rank, found by its tags; all ranks of a run have one ``lightwork.run``.

Where it sends to is told by its own ``MLFLOW_TRACKING_URI``, and the experiment, which is
otherwise called lightwork, by ``MLFLOW_EXPERIMENT_NAME``. Needs the package mlflow.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightwork.disk import only_one

log = logging.getLogger("lightwork")

RUN, RANK = "lightwork.run", "lightwork.rank"
BATCH = 1000
"""Metrics that MLflow takes in one message."""
SEND_EVERY_S = 2.0


class MlflowRun:
    """The scalars of one rank. A restarted run goes on in the same runs."""

    def __init__(self, run: Path, run_id: str, rank: int) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        self._metric: Any = Metric
        self._open: list[Any] = []
        self._sent_s = time.monotonic()
        # One after the other: the first to come makes the data base, the experiment and their like.
        with only_one(run / ".mlflow.lock", log.debug):
            self._client: Any = MlflowClient()
            experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "lightwork"))
            self._id = self._run_id(experiment, {RUN: run_id, RANK: str(rank)}, run.name)
        log.info("mlflow: run %s of experiment %s", self._id, experiment)

    def _run_id(self, experiment: str, tags: dict[str, str], name: str) -> str:
        """Of the run with these tags, or of a new one."""
        wanted = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in tags.items())
        found = self._client.search_runs([experiment], wanted, max_results=1)
        if not found:
            title = f"{name} rank {tags[RANK]}"
            found = [self._client.create_run(experiment, tags=tags, run_name=title)]
        self._client.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return str(
            found.experiment_id if found is not None else self._client.create_experiment(name)
        )

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
        """Several scalars of the same step; many steps make one message."""
        stamp_ms = round(1000 * time_unix_s)
        self._open += [self._metric(tag, value, stamp_ms, step) for tag, value in values.items()]
        if len(self._open) >= BATCH or time.monotonic() - self._sent_s >= SEND_EVERY_S:
            self._send()

    def text(self, tag: str, text: str) -> None:
        """A page of plain text, as a file of the run."""
        self._client.log_text(self._id, text, f"{tag}.txt")

    def close(self, failed: bool) -> None:
        """Send what is left, and say how the run ended."""
        try:
            self._send()
        finally:
            self._client.set_terminated(self._id, status="FAILED" if failed else "FINISHED")

    def _send(self) -> None:
        metrics, self._open, self._sent_s = self._open, [], time.monotonic()
        for first in range(0, len(metrics), BATCH):
            self._client.log_batch(self._id, metrics=metrics[first : first + BATCH])
