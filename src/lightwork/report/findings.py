"""What holds a run up: one rule for each cause, on the medians of its newest steps.

Each finding says how many seconds of a step it costs at most, so that they can be compared. What
counts as much is a matter of taste, and stands here once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from lightwork.report.steps import Numbers, Steps

Kind = Literal[
    "straggler", "communication", "data", "imbalance", "micro_batches", "padding", "duties",
    "bad_shard", "compute",
]  # fmt: skip

STRAGGLER = 1.2
"""A rank that takes so many times as long as the others for the same tokens is named."""
EXPOSED = 0.20
"""Of a step, in messages that nothing hides: communication-bound."""
DATA = 0.10
IMBALANCE = 0.08
"""Of a step, waiting for shares that cost more, not for a slower rank."""
FIXED = 0.20
"""Of forward and backward, what a micro-batch costs however small it is."""
PADDING = 0.15
DUTIES = 0.20
"""Of all the time, in checks, saves and evaluations."""
BAD_SHARD = 1.5
"""Times the loss of the others."""
COMPARED = ("data", "copy", "forward", "backward", "sync", "optimizer", "other")
"""Parts in which a rank can be slow by itself."""


@dataclass(frozen=True)
class Finding:
    """One cause, its evidence and what can be done."""

    kind: Kind
    words: str
    todo: str
    saved_s: float
    """Seconds of a step that would be saved if it were gone altogether."""
    speedup: float
    """How many times as fast the run would be then, at most."""
    rank: int | None = None
    factor: float | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def findings(steps: Steps) -> list[Finding]:
    """All causes that count, the dearest first; ``compute`` where there is none."""
    found = [finding for rule in RULES for finding in rule(steps)]
    costly = sorted(found, key=lambda finding: -finding.saved_s)
    return costly or [_compute(steps)]


def typical(values: Numbers) -> Numbers:
    """The median of each rank."""
    return np.asarray(np.nanmedian(values, axis=1), dtype=np.float64)


def wall_s(steps: Steps) -> float:
    """A step, as all ranks see it."""
    return float(typical(steps["step_s"]).mean())


def _finding(steps: Steps, kind: Kind, saved_s: float, words: str, todo: str, **of: Any) -> Finding:
    left_s = max(wall_s(steps) - saved_s, 1e-9)
    return Finding(kind, words, todo, saved_s, wall_s(steps) / left_s, **of)


def _per_token(steps: Steps, field: str) -> Numbers:
    """Seconds of each rank for a padded token; of one that has none, nan."""
    tokens = np.where(steps["padded_tokens"] > 0, steps["padded_tokens"], np.nan)
    with np.errstate(all="ignore"):
        return typical(steps[field] / tokens)


def _excess(pace: Numbers, rank: int) -> float:
    return float(pace[rank] - np.nanmedian(np.delete(pace, rank)))


def _slow_rank(steps: Steps) -> tuple[int, float] | None:
    """The rank that is slow by itself, and how many times as slow as the others."""
    if steps.ranks < 2:
        return None
    pace = _per_token(steps, "busy_s")
    factors = [pace[r] / np.nanmedian(np.delete(pace, r)) for r in range(steps.ranks)]
    slow = int(np.nanargmax(factors))
    return (slow, float(factors[slow])) if factors[slow] >= STRAGGLER else None


def straggler(steps: Steps) -> Iterator[Finding]:
    """A card that is slower than the others at the same work."""
    found = _slow_rank(steps)
    if found is None:
        return
    slow, factor = found
    paces = {part: _per_token(steps, f"{part}_s") for part in COMPARED}
    part = max(paces, key=lambda name: _excess(paces[name], slow))
    waited_s = float(np.delete(typical(steps["wait_s"]), slow).mean())
    yield _finding(
        steps,
        "straggler",
        waited_s,
        f"rank {slow} takes {factor:.2f} times as long as the others for the same tokens, most of "
        f"it in {part}; they wait for it {_of_step(steps, waited_s)}",
        "look at that card: its temperature and clocks, other programs on it, its place in the "
        "machine; or leave it out with --devices",
        rank=slow,
        factor=factor,
    )


def communication(steps: Steps) -> Iterator[Finding]:
    """Messages that backward does not hide."""
    exposed_s = float(typical(steps["transfer_s"]).mean())
    if exposed_s > EXPOSED * wall_s(steps):
        sent = float(typical(steps["sent_bytes"]).mean())
        yield _finding(
            steps,
            "communication",
            exposed_s,
            f"{sent / 1e6:,.1f} MB of gradients a step take {_of_step(steps, exposed_s)} that "
            "nothing hides",
            "fewer messages for each window: a larger train.batch_size (it changes what is "
            "learned: see train.lr_rule), larger micro-batches; or fewer cards",
        )


def data(steps: Steps) -> Iterator[Finding]:
    """The data comes too late."""
    late_s = float(typical(steps["data_s"]).max())
    if late_s > DATA * wall_s(steps):
        yield _finding(
            steps,
            "data",
            late_s,
            f"ranks wait for their data {_of_step(steps, late_s)}",
            "put data.cache on a local disk, and look for what else reads it; data is prepared "
            "once, so a second start should be faster",
        )


def imbalance(steps: Steps) -> Iterator[Finding]:
    """Shares of unequal cost."""
    waited_s = float(steps["wait_s"].mean())
    if _slow_rank(steps) is None and waited_s > IMBALANCE * wall_s(steps):
        tokens = steps["padded_tokens"]
        longest = float((tokens.max(axis=0) / tokens.mean(axis=0)).mean())
        yield _finding(
            steps,
            "imbalance",
            waited_s,
            f"ranks wait for each other {_of_step(steps, waited_s)}: in the mean step the longest "
            f"part has {longest:.2f} times the tokens of the mean one",
            "a larger train.batch_size leaves more choice to cut equal shares; windows of very "
            "different length want a smaller data.max_length",
        )


def micro_batches(steps: Steps) -> Iterator[Finding]:
    """Micro-batches so small that what each costs by itself counts."""
    seconds = (steps["forward_s"] + steps["backward_s"]).ravel()
    counts, tokens = steps["micro_batches"].ravel(), steps["padded_tokens"].ravel()
    if np.ptp(counts) == 0 or counts.mean() <= 1:
        return  # what is fixed cannot be told from what is not
    matrix = np.stack([counts, tokens], axis=1)
    (fixed_s, _), *_ = np.linalg.lstsq(matrix, seconds, rcond=None)
    cost_s = float(fixed_s * counts.mean())
    if cost_s > FIXED * float(seconds.mean()):
        each = float(tokens.sum() / counts.sum())
        yield _finding(
            steps,
            "micro_batches",
            cost_s * (1 - 1 / float(counts.mean())),
            f"a rank computes {counts.mean():.1f} micro-batches of {each:,.0f} tokens a step, and "
            f"each costs {1000 * fixed_s:.0f} ms however small it is",
            "a higher train.micro_batch_tokens, or auto, makes fewer and larger ones",
        )


def padding(steps: Steps) -> Iterator[Finding]:
    """Tokens that are computed for nothing."""
    wasted = 1 - float(steps["real_tokens"].sum() / max(steps["padded_tokens"].sum(), 1))
    if wasted > PADDING:
        computed_s = float(typical(steps["forward_s"] + steps["backward_s"]).mean())
        yield _finding(
            steps,
            "padding",
            wasted * computed_s,
            f"{wasted:.0%} of the tokens are padding",
            "a larger train.batch_size or more micro-batches (train.micro_batch_tokens) put "
            "windows of like length together",
        )


def duties(steps: Steps) -> Iterator[Finding]:
    """Checks, saves and evaluations between steps."""
    own_s = float(steps["duties_s"].mean())
    if own_s > DUTIES * (wall_s(steps) + own_s):
        yield _finding(
            steps,
            "duties",
            own_s * wall_s(steps) / (wall_s(steps) + own_s),
            f"checks, saves and evaluations take {own_s:.2f} s between two steps, in the mean",
            "a higher train.evaluate_every_steps or checkpoint.every_steps",
        )


def bad_shard(steps: Steps) -> Iterator[Finding]:
    """A rank whose loss is out of line with the others'."""
    if steps.ranks < 2:
        return
    loss = typical(steps["rank_loss"])
    for rank in range(steps.ranks):
        others = float(np.nanmedian(np.delete(loss, rank)))
        if loss[rank] > BAD_SHARD * others:
            yield _finding(
                steps,
                "bad_shard",
                0.0,
                f"the loss of rank {rank} is {loss[rank] / others:.1f} times that of the others, "
                "although windows are dealt at random",
                f"run lightwork verify, and suspect the card of rank {rank} or its memory",
                rank=rank,
            )


def _compute(steps: Steps) -> Finding:
    computed_s = float(typical(steps["forward_s"] + steps["backward_s"]).mean())
    return _finding(
        steps,
        "compute",
        0.0,
        f"forward and backward take {_of_step(steps, computed_s)}, and nothing else counts",
        "more cards, train.precision=bf16 on GPUs that have it, or a smaller model",
    )


RULES: tuple[Callable[[Steps], Iterator[Finding]], ...] = (
    straggler, communication, data, imbalance, micro_batches, padding, duties, bad_shard,
)  # fmt: skip


def _of_step(steps: Steps, seconds: float) -> str:
    return f"{seconds:.3g} s of {wall_s(steps):.3g} s a step ({seconds / wall_s(steps):.0%})"
