"""What is written down for every step: one object a line, units in the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VERSION = 2
"""Of the lines; in the first, which did not say it, ``sync_s`` was what ``wait_s`` and
``transfer_s`` are now."""


FAR = 3.0
"""Times the mean loss of its batch, from which on the windows of a micro-batch are written down."""

STEP_PARTS = (
    "data", "copy", "forward", "backward", "sync", "optimizer", "wait", "transfer", "other",
)  # fmt: skip
"""What adds up to a step."""


@dataclass(frozen=True)
class Sample:
    """What a rank's processor and card were doing, over the time since the last sample."""

    cpu_percent: float | None = None
    """Of one processor, by all threads of this process: 200 is two of them."""
    machine_cpu_percent: float | None = None
    """Of all processors of the machine, by everybody."""
    preemptions_per_s: float | None = None
    """How often somebody else got a processor that this process wanted to keep."""
    card_busy_percent: float | None = None
    """Of the time, in which any kernel ran on the card."""
    card_temperature_c: float | None = None
    card_clock_mhz: float | None = None
    """Of its multiprocessors."""
    card_power_w: float | None = None
    card_throttled: list[str] | None = None
    """What holds the clock down, in words; empty: nothing."""


NOT_SAMPLED = Sample()


@dataclass(frozen=True)
class StepRecord:
    """One step as one rank saw it. ``loss`` and ``grad_norm`` are of the whole batch."""

    step: int
    epoch: int
    rank: int
    attempt: int
    time_unix_s: float
    loss: float
    """Mean loss per window of the batch, over all ranks."""
    rank_loss: float | None
    """Mean loss per window of this rank's part; None when it had none."""
    grad_norm: float
    """Norm of the summed gradient, before clipping."""
    rank_grad_norm: float | None
    """Norm of this rank's own gradient before it was summed; None when not measured."""
    learning_rate: float
    loss_scale: float
    """What the loss was multiplied by before backward; 1 but in float16."""
    applied: bool
    """Whether there was an update; otherwise the batch was left out."""
    windows: int
    """Windows of this rank."""
    micro_batches: int
    """In which it computed them."""
    batch_windows: int
    """Windows of the batch, over all ranks."""
    real_tokens: int
    padded_tokens: int
    duties_s: float
    """Between the step before and this one: checks, saves, evaluations. Not in ``step_s``."""
    step_s: float
    """The whole step. The parts that follow, without the waits inside them, add up to it."""
    data_s: float
    """Waiting for the data."""
    copy_s: float
    """Bringing it to the device."""
    forward_s: float
    backward_s: float
    sync_s: float
    """Work for messages: packing, posting, deciding together."""
    optimizer_s: float
    """Norm, clipping and the optimizer."""
    wait_s: float
    """Standing still because the slowest rank was not there yet."""
    transfer_s: float
    """Standing still although all were there: what messages took that nothing hid."""
    other_s: float
    """What is left of the step."""
    busy_s: float
    """At work since all ranks last met, up to the end of backward, without waits: what to compare
    ranks by. CUDA: the device's part of it."""
    slowest_rank: int
    """The one with the longest ``busy_s`` in this step."""
    slowest_busy_s: float
    hidden_sync_s: float
    """Messages were under way so long while backward still ran."""
    sent_bytes: int
    transfer_bytes_per_s: float | None
    """Of gradients, while any were under way; None where nothing was sent."""
    bucket_ready_s: list[float]
    """When each message could set out, in seconds from the start of the step."""
    memory_bytes: int
    """CPU: resident memory of the process. CUDA: the most the device held for tensors so far."""
    memory_total_bytes: int | None = None
    """What there is of it for this rank; None where nobody says."""
    private_bytes: int | None = None
    """Of the host's memory, what this process holds and no file stands behind."""
    worst_loss: float | None = None
    """Mean loss per window of the micro-batch in which it is highest, of this rank's."""
    worst_windows: list[int] = field(default_factory=list)
    """The windows of that one, where its loss is :data:`FAR` times that of the batch."""
    profiled: bool = False
    """Whether the profiler was looking, or wrote its trace just before: both make a step slower."""
    sample: Sample = NOT_SAMPLED
    """Taken about once a second; all None in the steps between."""

    def as_json(self) -> dict[str, Any]:
        """The record with its sample, and the rates that follow from it, as one object."""
        rates = {
            "windows_per_s": self.windows / self.step_s,
            "batch_windows_per_s": self.batch_windows / self.step_s,
            "real_tokens_per_s": self.real_tokens / self.step_s,
            "padded_tokens_per_s": self.padded_tokens / self.step_s,
        }
        fields = {"version": VERSION, **vars(self), **vars(self.sample), **rates}
        del fields["sample"]
        return fields
