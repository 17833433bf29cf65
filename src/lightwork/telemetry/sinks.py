"""Where the numbers of a rank can be looked at: one interface, the same tags, whatever shows them.

All of it stands in ``metrics/rank<N>.jsonl`` as well, so a sink that fails costs one warning and
nothing else: training never waits for one, and never stops because of one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol

from lightwork.errors import SettingsError
from lightwork.telemetry.charts import Charts
from lightwork.telemetry.records import STEP_PARTS, StepRecord
from lightwork.telemetry.sending import Sending

log = logging.getLogger("lightwork")

TAGS = {
    "loss/batch": "loss",
    "loss/rank": "rank_loss",
    "gradient/norm": "grad_norm",
    "gradient/rank_norm": "rank_grad_norm",
    "learning_rate": "learning_rate",
    "loss_scale": "loss_scale",
    "epoch": "epoch",
    "speed/batch_windows_per_s": "batch_windows_per_s",
    "speed/windows_per_s": "windows_per_s",
    "speed/real_tokens_per_s": "real_tokens_per_s",
    "speed/padded_tokens_per_s": "padded_tokens_per_s",
    **{
        f"seconds/{part}": f"{part}_s"
        for part in ("step", "duties", *STEP_PARTS, "busy", "hidden_sync")
    },
    "memory/bytes": "memory_bytes",
    "processor/percent": "cpu_percent",
    "processor/machine_percent": "machine_cpu_percent",
    "processor/preemptions_per_s": "preemptions_per_s",
    "card/busy_percent": "card_busy_percent",
    "card/temperature_c": "card_temperature_c",
    "card/clock_mhz": "card_clock_mhz",
    "card/power_w": "card_power_w",
    "card/throttled": "card_throttled",
}
"""Tag -> field of the step record, as in ``metrics/rank<N>.jsonl``; of a list, how long it is."""


class Sink(Protocol):
    """Something that shows the numbers of one rank. Any call may raise, and may take long."""

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
        """Several scalars of the same step."""
        ...

    def text(self, tag: str, text: str) -> None:
        """A page of plain text, such as the settings."""
        ...

    def close(self, failed: bool) -> None:
        """Write what is left. ``failed``: the run ended by an error."""
        ...


@dataclass(frozen=True)
class Place:
    """Whose numbers they are."""

    run: Path
    """The folder of the run."""
    run_id: str
    rank: int
    first_step: int
    """What an earlier start wrote from this step on is done again."""


def _tensorboard(place: Place) -> Sink:
    return Charts(place.run / "tensorboard", place.rank, place.first_step)


def _wandb(place: Place) -> Sink:
    from lightwork.telemetry.wandb_run import WandbRun

    return Sending("wandb", lambda: WandbRun(place.run, place.run_id, place.rank))


def _mlflow(place: Place) -> Sink:
    from lightwork.telemetry.mlflow_run import MlflowRun

    return Sending("mlflow", lambda: MlflowRun(place.run, place.run_id, place.rank))


OPENERS: dict[str, Callable[[Place], Sink]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}
"""What ``telemetry.sinks`` may name; each is also the name of the package it needs."""


def check_installed(names: Sequence[str]) -> None:
    """Raise SettingsError where a package is missing, before anything begins."""
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        extras = ",".join(missing)
        raise SettingsError(
            f"telemetry.sinks names {' and '.join(missing)}, which {_are(missing)} not installed: "
            f"pip install 'lightwork[{extras}]', or leave {_it(missing)} out"
        )


def _is_installed(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.origin is not None  # a mere folder of that name has none


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


class Sinks:
    """All of one rank, as one; use as a context manager."""

    def __init__(self, names: Sequence[str], place: Place) -> None:
        self._sinks: dict[str, Sink] = {}
        for name in names:
            with self._guarded(name):
                self._sinks[name] = OPENERS[name](place)

    def write(self, record: StepRecord) -> None:
        """All scalars of one step; what was not measured is left out."""
        self.scalars(scalars_of(record), record.step, record.time_unix_s)

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
        """Several scalars of the same step."""
        for name, sink in list(self._sinks.items()):
            with self._guarded(name):
                sink.scalars(values, step, time_unix_s)

    def text(self, tag: str, text: str) -> None:
        """A page of plain text, such as the settings."""
        for name, sink in list(self._sinks.items()):
            with self._guarded(name):
                sink.text(tag, text)

    def __enter__(self) -> Sinks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, sink in list(self._sinks.items()):
            with self._guarded(name):
                sink.close(failed=kind is not None)

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Around a call of a sink: one that raises is said once, and left alone from then on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a page of curves is not worth a run
            self._sinks.pop(name, None)
            words = " ".join(str(error).split())[:300]
            log.warning("%s (telemetry.sinks) fails; training goes on without it: %s", name, words)


def scalars_of(record: StepRecord) -> dict[str, float | int]:
    """Tag -> number of all that was measured in a step."""
    values = record.as_json()
    found = {}
    for tag, name in TAGS.items():
        value = values[name]
        if value is not None:
            found[tag] = len(value) if isinstance(value, list) else value
    return found
