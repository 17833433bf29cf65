"""Whoever is shown the numbers is shown the same ones, and none of them can hold training up."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest

from lightwork.disk import SILENCE_S
from lightwork.errors import SettingsError
from lightwork.settings.running import TelemetrySettings
from lightwork.telemetry import mlflow_run
from lightwork.telemetry.sending import HURRY_S, KEPT, PATIENCE_S, Sending
from lightwork.telemetry.sinks import OPENERS, Place, Sinks, check_installed, scalars_of
from tests.telemetry import fakes
from tests.telemetry.fakes import fake_mlflow, fake_wandb
from tests.telemetry.test_recorder import record


def place(folder: Path, rank: int = 0, first_step: int = 1) -> Place:
    return Place(folder, "run-7", rank, first_step)


class Noted:
    """A sink that notes down, fails when told to, and can be held."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails = False
        self.free = threading.Event()
        self.free.set()

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
        assert self.free.wait(30)
        if self.fails:
            raise ConnectionError("no route\nto host")
        self.calls.append(step)

    def text(self, tag: str, text: str) -> None:
        self.calls.append((tag, text))

    def close(self, failed: bool) -> None:
        self.calls.append("failed" if failed else "closed")


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    sink = Noted()
    monkeypatch.setitem(OPENERS, "tensorboard", lambda _: sink)
    return sink


def test_what_the_settings_allow_is_what_there_is() -> None:
    allowed = TelemetrySettings.model_fields["sinks"].annotation
    assert set(get_args(get_args(allowed)[0])) == set(OPENERS)


def test_a_run_of_wandb_for_each_rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = fake_wandb(monkeypatch)
    for rank in (0, 1):
        with Sinks(["wandb"], place(tmp_path / "mine", rank)) as shown:
            shown.write(record(4))
            shown.scalars({"dev/f1": 50.0}, 4, 9.0)
            shown.text("settings", "train: {}")
    first, second = runs
    assert [run.given["group"] for run in runs] == ["run-7", "run-7"]
    assert [run.given["id"] for run in runs] == ["run-7-rank0", "run-7-rank1"]
    assert (second.given["name"], second.given["resume"]) == ("mine rank 1", "allow")
    assert first.logged == [
        {**scalars_of(record(4)), "step": 4, "time_unix_s": 0.0},
        {"dev/f1": 50.0, "step": 4, "time_unix_s": 9.0},
    ]
    assert ("*", "step") in first.metrics, "its own count of calls is no step"
    assert first.values == {"settings": "train: {}"}
    assert first.exit_code == 0


def test_projects_of_wandb_are_named_by_its_own_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = fake_wandb(monkeypatch)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    with Sinks(["wandb"], place(tmp_path)):
        pass
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    with pytest.raises(ArithmeticError), Sinks(["wandb"], place(tmp_path)):
        raise ArithmeticError
    assert [run.given["project"] for run in runs] == ["lightwork", "theirs"]
    assert [run.exit_code for run in runs] == [0, 1], "a failed run is one there too"


def test_a_run_of_mlflow_for_each_rank_goes_on_after_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = fake_mlflow(monkeypatch)
    for first_step, ranks in ((1, (0, 1)), (3, (0,))):
        for rank in ranks:
            with Sinks(["mlflow"], place(tmp_path, rank, first_step)) as shown:
                for step in (first_step, first_step + 1):
                    shown.write(record(step, loss=step + 0.5))
                shown.text("settings", "train: {}")
    assert [run["tags"] for run in server.runs.values()] == [
        {"lightwork.run": "run-7", "lightwork.rank": "0"},
        {"lightwork.run": "run-7", "lightwork.rank": "1"},
    ]
    assert list(server.experiments) == ["lightwork"]
    of_rank_0 = server.runs["run0"]
    losses = [(m.step, m.value) for m in of_rank_0["metrics"] if m.key == "loss/batch"]
    assert losses == [(1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)]
    assert {m.key for m in of_rank_0["metrics"]} == set(scalars_of(record(1)))
    assert of_rank_0["status"] == "FINISHED"
    assert of_rank_0["texts"] == {"settings.txt": "train: {}"}


def test_many_steps_are_one_message_to_mlflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = fake_mlflow(monkeypatch)
    monkeypatch.setattr(mlflow_run, "SEND_EVERY_S", 1e9)
    run = mlflow_run.MlflowRun(tmp_path, "run-7", 0)
    each = scalars_of(record(1))
    for step in range(1, 101):
        run.scalars(each, step, 0.0)
    assert server.batches, "they are not kept until the end"
    run.close(failed=False)
    assert sum(server.batches) == 100 * len(each)
    assert max(server.batches) <= mlflow_run.BATCH, "MLflow takes no more"
    assert len(server.batches) < 10


def test_a_server_that_goes_away_costs_one_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = fake_mlflow(monkeypatch)
    monkeypatch.setattr(mlflow_run, "SEND_EVERY_S", 0.0)
    server.broken = True
    with caplog.at_level(logging.WARNING), Sinks(["mlflow"], place(tmp_path)) as shown:
        for step in (1, 2, 3):
            shown.write(record(step))
    first, last = caplog.messages
    assert first == (
        "mlflow (telemetry.sinks) fails, and what it does not take is left out: "
        "Max retries exceeded: connection refused"
    )
    assert last == "mlflow lacks 3 entries of this start"


def test_what_cannot_be_opened_costs_one_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake_wandb(monkeypatch)

    def refuse(**_: Any) -> None:
        raise ValueError("No API key configured. Use `wandb login` to log in.")

    monkeypatch.setattr("wandb.init", refuse)
    with caplog.at_level(logging.WARNING), Sinks(["wandb"], place(tmp_path)) as shown:
        shown.write(record(1))
    (line,) = caplog.messages
    assert line.startswith("wandb (telemetry.sinks) fails, and training goes on without it: No API")


def test_the_others_go_on_without_one_that_fails(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    noted: Noted,
) -> None:
    runs = fake_wandb(monkeypatch)
    noted.fails = True
    caplog.set_level(logging.WARNING)
    with Sinks(["tensorboard", "wandb"], place(tmp_path)) as shown:
        for step in (1, 2, 3):
            shown.write(record(step))
    assert [entry["step"] for entry in runs[0].logged] == [1, 2, 3]
    assert noted.calls == [], "it is not even closed"
    assert caplog.messages == [
        "tensorboard (telemetry.sinks) fails; training goes on without it: no route to host"
    ]


def test_a_sink_that_stands_still_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    slow = Noted()
    slow.free.clear()
    sending = Sending("slow", lambda: slow, patience_s=0.05)
    with caplog.at_level(logging.WARNING):
        for step in range(5):
            sending.scalars({}, step, 0.0)  # would wait for ever
        sending.close(failed=False)
    assert slow.calls == []
    assert caplog.messages == ["slow did not take all within 0.05 s"]
    slow.free.set()
    sending._thread.join(30)
    assert slow.calls == [0, 1, 2, 3, 4, "closed"], "in order, if there is time"


def test_a_run_that_is_ended_waits_less(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []
    slow = Noted()
    slow.free.clear()
    sending = Sending("slow", lambda: slow)
    sending.scalars({}, 1, 0.0)
    monkeypatch.setattr(sending._thread, "join", waited.append)
    for failed in (False, True):
        sending.close(failed)
    slow.free.set()
    assert waited == [SILENCE_S, PATIENCE_S, SILENCE_S, HURRY_S]


def test_what_waits_to_be_sent_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    slow = Noted()
    slow.free.clear()
    sending = Sending("slow", lambda: slow)
    for step in range(KEPT + 50):
        sending.scalars({}, step, 0.0)
    slow.free.set()
    with caplog.at_level(logging.WARNING):
        sending.close(failed=True)
    assert slow.calls[-1] == "failed"
    lost = KEPT + 50 - (len(slow.calls) - 1)
    assert 49 <= lost <= 50
    assert caplog.messages == [f"slow lacks {lost} entries of this start"]


def test_missing_packages_are_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_wandb(monkeypatch)
    check_installed(["tensorboard", "wandb"])
    monkeypatch.setattr(
        "lightwork.telemetry.sinks.find_spec", lambda n: None if n == "mlflow" else find_spec(n)
    )
    with pytest.raises(SettingsError) as caught:
        check_installed(["wandb", "mlflow"])
    assert str(caught.value) == (
        "telemetry.sinks names mlflow, which is not installed: pip install 'lightwork[mlflow]', "
        "or leave it out"
    )


def test_a_folder_of_that_name_is_no_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """W&B itself leaves a folder called wandb where it ran."""
    (tmp_path / "wandb_of_old").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match="pip install 'lightwork\\[wandb_of_old,no_such\\]'"):
        check_installed(["wandb_of_old", "no_such"])


@pytest.mark.parametrize(
    ("module", "real", "fake"),
    [
        ("wandb", "init", fakes.wandb_init),
        ("wandb", "Settings", fakes.Settings),
        *(("wandb", f"Run.{name}", getattr(fakes.WandbFake, name))
          for name in ("log", "finish", "define_metric")),
        ("mlflow.entities", "Metric", fakes.Metric),
        *(("mlflow", f"MlflowClient.{name}", method)
          for name, method in vars(fakes.MlflowFake).items() if not name.startswith("_")),
    ],
)  # fmt: skip
def test_the_real_packages_take_the_same(module: str, real: str, fake: Any) -> None:
    found: Any = pytest.importorskip(module)
    for name in real.split("."):
        found = getattr(found, name)
    known = inspect.signature(found).parameters
    assert set(inspect.signature(fake).parameters) <= set(known) | set(
        getattr(found, "model_fields", ())
    )
