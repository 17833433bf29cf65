"""Stand-ins for packages that send numbers elsewhere: they note down what they are given.

Their functions have the names and arguments of the real ones, which a test compares where those
are installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass
class Settings:
    """``wandb.Settings``."""

    console: str
    silent: bool
    init_timeout: float
    finish_timeout: float


class WandbFake:
    """One ``wandb.Run``, and what ``wandb.init`` was given for it."""

    offline = True
    url = None
    dir = "/somewhere/offline-run/files"

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.logged: list[dict[str, Any]] = []
        self.metrics: list[tuple[str, str | None]] = []
        self.values: dict[str, Any] = {}
        self.exit_code: int | None = None
        self.config = SimpleNamespace(update=self._update)

    def _update(self, d: dict[str, Any], allow_val_change: bool) -> None:
        self.values.update(d)

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.metrics.append((name, step_metric))

    def log(self, data: dict[str, Any]) -> None:
        self.logged.append(data)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def wandb_init(
    *, project: str, group: str, id: str, name: str, resume: str, dir: str,  # noqa: A002
    config: dict[str, Any], settings: Settings,
) -> WandbFake:  # fmt: skip
    """``wandb.init``."""
    return WandbFake(dict(locals()))


def fake_wandb(monkeypatch: pytest.MonkeyPatch) -> list[WandbFake]:
    """The runs that are begun from here on."""
    runs: list[WandbFake] = []

    def init(**given: Any) -> WandbFake:
        runs.append(wandb_init(**given))
        return runs[-1]

    _install(monkeypatch, "wandb", init=init, Settings=Settings)
    return runs


@dataclass(frozen=True)
class Metric:
    """``mlflow.entities.Metric``."""

    key: str
    value: float
    timestamp: int
    step: int


class MlflowFake:
    """``mlflow.MlflowClient`` and its server, which outlives the clients; ``broken``: it fails."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.batches: list[int] = []
        self.broken = False

    def get_experiment_by_name(self, name: str) -> Any:
        found = self.experiments.get(name)
        return found and SimpleNamespace(experiment_id=found)

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, str(len(self.experiments)))

    def search_runs(
        self, experiment_ids: list[str], filter_string: str, max_results: int
    ) -> list[Any]:
        wanted = dict(part.split(" = ") for part in filter_string.split(" and "))
        return [
            SimpleNamespace(info=SimpleNamespace(run_id=run_id))
            for run_id, run in self.runs.items()
            if run["experiment"] in experiment_ids
            and {f"tags.`{tag}`": f"'{value}'" for tag, value in run["tags"].items()} == wanted
        ][:max_results]

    def create_run(self, experiment_id: str, tags: dict[str, str], run_name: str) -> Any:
        run_id = f"run{len(self.runs)}"
        given = {"experiment": experiment_id, "tags": tags, "name": run_name}
        self.runs[run_id] = {**given, "status": "SCHEDULED", "metrics": [], "texts": {}}
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def update_run(self, run_id: str, status: str) -> None:
        self.runs[run_id]["status"] = status

    def log_batch(self, run_id: str, metrics: Sequence[Metric]) -> None:
        if self.broken:
            raise ConnectionError("Max retries exceeded:\n  connection refused")
        self.batches.append(len(metrics))
        self.runs[run_id]["metrics"] += metrics

    def log_text(self, run_id: str, text: str, artifact_file: str) -> None:
        self.runs[run_id]["texts"][artifact_file] = text

    def set_terminated(self, run_id: str, status: str) -> None:
        self.runs[run_id]["status"] = status


def fake_mlflow(monkeypatch: pytest.MonkeyPatch) -> MlflowFake:
    """The server that all clients from here on talk to."""
    server = MlflowFake()
    _install(monkeypatch, "mlflow", MlflowClient=lambda: server)
    _install(monkeypatch, "mlflow.entities", Metric=Metric)
    return server


def _install(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, origin="fake")
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
