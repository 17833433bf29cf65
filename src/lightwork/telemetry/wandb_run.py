"""Weights & Biases: a run for each rank, all ranks of a run in one group.

Where it sends to, as whom, or whether it only writes files (``WANDB_MODE=offline``) is told by its
own environment variables. Needs the package wandb.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger("lightwork")

INIT_S, FINISH_S = 30.0, 15.0
"""How long its beginning and its end may take. What was not sent by then is in its folder, for
``wandb sync``."""


class WandbRun:
    """The scalars of one rank. A restarted run goes on in the same runs, known by their ids."""

    def __init__(self, run: Path, run_id: str, rank: int) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "lightwork"),
            group=run_id,
            id=f"{run_id}-rank{rank}",
            name=f"{run.name} rank {rank}",
            resume="allow",
            dir=str(run),
            config={"rank": rank, "run": str(run)},
            settings=wandb.Settings(
                console="off", silent=True, init_timeout=INIT_S, finish_timeout=FINISH_S
            ),
        )
        # Its own count never goes back, as steps do after a resume; so ours is a number beside it.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        offline = f"offline, in {Path(self._run.dir).parent}"
        log.info("wandb: %s", offline if self._run.offline else self._run.url)

    def scalars(self, values: Mapping[str, float | int], step: int, time_unix_s: float) -> None:
        """Several scalars of the same step."""
        self._run.log({**values, "step": step, "time_unix_s": time_unix_s})

    def text(self, tag: str, text: str) -> None:
        """A page of plain text, in the configuration."""
        self._run.config.update({tag: text}, allow_val_change=True)

    def close(self, failed: bool) -> None:
        """Send what is left."""
        self._run.finish(exit_code=int(failed))
