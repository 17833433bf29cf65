"""TensorBoard's event files: the same tags from every rank, each in a folder of its own.

So all ranks of a run lie over one another in one chart, and a card that is slower, or waits more,
shows. ``tensorboard --logdir runs/`` finds them; the file format and its writer are TensorBoard's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLUSH_EVERY_S = 10
"""What a killed process can lose; TensorBoard itself looks every 30 seconds."""


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

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
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

    def close(self, failed: bool) -> None:  # noqa: ARG002 - event files know no such thing
        """Write what is left and close the file."""
        self._writer.close()
