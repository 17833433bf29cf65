"""TensorBoard's event files: the same tags from every rank, each in a folder of its own.

So all ranks of a run lie over one another in one chart, and a card that is slower, or waits more,
shows. ``tensorboard --logdir runs/`` finds them; the file format and its writer are TensorBoard's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightwork.telemetry.records import STEP_PARTS, StepRecord

FLUSH_EVERY_S = 10
"""What a killed process can lose; TensorBoard itself looks every 30 seconds."""

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
}
"""Tag -> field of the step record, as in ``metrics/rank<N>.jsonl``."""


class Charts:
    """``tensorboard/rank<N>/``: the scalars of one rank.

    ``first_step``: what an earlier start drew from this step on is replaced, as after a resume.
    """

    def __init__(self, folder: Path, rank: int, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(
            str(folder / f"rank{rank}"),
            purge_step=first_step if first_step > 1 else None,
            flush_secs=FLUSH_EVERY_S,
        )

    def write(self, record: StepRecord) -> None:
        """All scalars of one step; what was not measured is left out."""
        values = record.as_json()
        scalars = {tag: values[name] for tag, name in TAGS.items() if values[name] is not None}
        self.scalars(scalars, record.step, record.time_unix_s)

    def scalars(
        self, values: Mapping[str, float | int], step: int, time_unix_s: float | None = None
    ) -> None:
        """Several scalars of the same step, as one event."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        )
        self._writer.file_writer.add_summary(summary, step, time_unix_s)

    def text(self, tag: str, text: str) -> None:
        """A page of plain text, such as the settings; shown as it is."""
        indented = "\n".join(f"    {line}" for line in text.splitlines())
        self._writer.add_text(tag, indented)

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()
