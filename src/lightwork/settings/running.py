"""The settings of how a run is done: exchange of gradients, checkpoints, processes."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from lightwork.settings.kinds import (
    AtLeastOne,
    BucketSize,
    Number,
    Positive,
    Section,
    Sinks,
    Steps,
    Threads,
    Whole,
    machine,
    reporting,
)


class SyncSettings(Section):
    """How the gradients of all ranks become one."""

    strategy: Literal["all_reduce", "ring", "tree", "ddp"] = machine(
        "all_reduce", "How gradients are summed; tree: to the same bits at any number of ranks"
    )
    bucket_bytes: Literal["auto"] | BucketSize = machine(
        8 << 20, "Gradients that travel as one message, as in 8MiB; auto: measured at the start"
    )
    overlap: Literal["backward", "none"] = machine(
        "backward", "When buckets travel: while backward runs, or after it; not with ddp"
    )
    rows: Literal["auto", "on", "off"] = machine(
        "auto", "Of the word embeddings send what the batch touches; auto: where it pays; not ddp"
    )
    timeout_s: Positive = machine(600.0, "Seconds without an answer after which a peer is lost")

    @model_validator(mode="after")
    def _ddp_goes_its_own_way(self) -> SyncSettings:
        if self.strategy == "ddp" and self.rows == "on":
            raise ValueError(
                "sync.strategy is ddp and sync.rows is on: PyTorch's wrapper always sends the "
                "whole table; set sync.rows=auto, or sync.strategy=all_reduce"
            )
        if self.strategy == "ddp" and self.overlap == "none":
            raise ValueError(
                "sync.strategy is ddp and sync.overlap is none: PyTorch's wrapper always sends "
                "during backward; set sync.overlap=backward, or another sync.strategy"
            )
        return self


class CheckpointSettings(Section):
    """When the state of a run is saved."""

    every_minutes: Positive | None = machine(
        30.0, "Minutes between two checkpoints; null: none by the clock"
    )
    every_steps: AtLeastOne | None = machine(
        None, "Steps between two checkpoints; null: none by the count"
    )
    snapshot_every_steps: AtLeastOne | None = machine(
        None, "Steps between two copies in /dev/shm, for when a process dies; null: none"
    )
    keep: Whole = machine(3, "Newest checkpoints that are kept, besides the best one", ge=1)


class LaunchSettings(Section):
    """How the processes are started."""

    device: Literal["auto", "cpu", "cuda"] = machine("auto", "Where to compute; auto: cuda if any")
    threads: Literal["auto"] | Threads = machine(
        "auto",
        "Threads of a rank; auto: cores divided by its machine's ranks, with tree by the shares",
    )
    grace_s: Number = machine(
        30.0, "Seconds that ranks get to save and end after a signal, before they are killed", ge=0
    )
    restarts: Whole = machine(
        10, "New attempts after a rank died or hung; 0: none", ge=0, le=100_000
    )
    hang_timeout_s: Positive | None = machine(
        300.0, "Seconds without progress after which a rank hangs; null: nobody looks"
    )


class TelemetrySettings(Section):
    """What is measured on the way, and where it is shown."""

    sinks: Sinks = reporting(
        ("tensorboard",), "Where the numbers of every step are shown; []: only in the run's files"
    )
    profile_steps: Steps | None = reporting(
        None, "Steps of which torch's profiler writes a trace for each rank, at most 50; null: none"
    )
