"""Where records go: a file of JSON lines per rank, and on rank 0 a bar or plain lines."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import deque
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lightwork.errors import RunError
from lightwork.telemetry.lines import open_lines
from lightwork.telemetry.records import StepRecord
from lightwork.telemetry.terminal import terminal

log = logging.getLogger("lightwork")


def _json_safe(value: object) -> object:
    """JSON has no NaN or infinity; they are written as text so that every reader can read."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class MetricsFile:
    """``metrics/rank<N>.jsonl``: appended, one line a step, whole lines only.

    After a resume a step can stand there twice; the line with the higher ``attempt`` counts.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"rank{rank}.jsonl"
        self._file = open_lines(self._path)

    def write(self, record: StepRecord) -> None:
        """Append one record."""
        fields = {name: _json_safe(value) for name, value in record.as_json().items()}
        try:
            self._file.write((json.dumps(fields) + "\n").encode())
        except OSError as error:
            lonely = RunError(
                f"cannot write {self._path} ({error.strerror}); make room, and the same command "
                "goes on"
            )
            lonely.joint = False
            raise lonely from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class StepDisplay:
    """What a person sees of the steps: a bar on a terminal, otherwise a line now and then.

    Use as a context manager. ``total`` is the last step, ``every`` the steps between plain lines.
    """

    def __init__(self, total: int, every: int, console: Console | None = None) -> None:
        self._total, self._every = total, every
        self._recent: deque[tuple[float, int]] = deque(maxlen=max(2, min(every, 100) + 1))
        console = console or terminal()
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("step"),
                MofNCompleteColumn(),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[facts]}"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task("train", total=total, facts="")

    def __enter__(self) -> StepDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, record: StepRecord) -> None:
        """Show one step."""
        self._recent.append((time.monotonic(), record.batch_windows))
        rate = self._windows_per_s(record)
        facts = f"loss {record.loss:.3f}  lr {record.learning_rate:.2e}  {rate:.0f} windows/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=record.step, facts=facts)
        elif record.step % self._every == 0 or record.step == self._total:
            log.info("step %d/%d  %s  %s", record.step, self._total, facts, self._left(record))

    def _windows_per_s(self, record: StepRecord) -> float:
        span_s = self._recent[-1][0] - self._recent[0][0]
        windows = sum(count for _, count in list(self._recent)[1:])
        return windows / span_s if span_s > 0 else record.batch_windows / record.step_s

    def _left(self, record: StepRecord) -> str:
        span_s = self._recent[-1][0] - self._recent[0][0]
        steps = len(self._recent) - 1
        step_s = span_s / steps if steps else record.step_s
        left_s = round(step_s * (self._total - record.step))
        hours, rest = divmod(left_s, 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02} left"
