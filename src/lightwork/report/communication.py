"""Messages that nothing hides, and what would be gained by which remedy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightwork.report.finding import Finding, made, of_step, typical, wall_s
from lightwork.report.steps import Steps

EXPOSED = 0.20
"""Of a step, in messages that nothing hides: communication-bound."""
LATE = 0.5
"""Of backward, after which the first message sets out: buckets are too large to hide."""
MANY, SMALL_BYTES = 32, 1 << 20
"""So many messages, so small: what each costs by itself counts."""


def communication(steps: Steps) -> Iterator[Finding]:
    """Messages that backward does not hide."""
    exposed_s = float(typical(steps["transfer_s"]).mean())
    if exposed_s > EXPOSED * wall_s(steps):
        sent = float(typical(steps["sent_bytes"]).mean())
        yield made(
            steps,
            "communication",
            exposed_s,
            f"{sent / 1e6:,.1f} MB of gradients a step take {of_step(steps, exposed_s)} that "
            "nothing hides",
            "; ".join(remedies(steps, exposed_s)),
            part="transfer",
        )


def remedies(steps: Steps, exposed_s: float) -> Iterator[str]:
    """What can be done, the surest first, with what each would gain."""
    if steps.choices.rows == "off" and steps.choices.strategy != "ddp":
        yield "sync.rows=auto sends of the word embeddings only what the batch touches"
    yield _fewer_messages(steps, exposed_s)
    yield from _buckets(steps, exposed_s)
    other = "ring" if steps.choices.strategy == "all_reduce" else "all_reduce"
    yield (
        f"another sync.strategy, such as {other}: lightwork bench sync measures which is the "
        "fastest here"
    )
    yield from _fewer_cards(steps, exposed_s)


def _fewer_messages(steps: Steps, exposed_s: float) -> str:
    """Twice the windows for the same messages: all of a step doubles but these."""
    gain = 1 / (1 - exposed_s / wall_s(steps) / 2)
    return (
        f"twice the train.batch_size makes half the messages, {gain:.2f} times the windows per "
        "second (it changes what is learned: see train.lr_rule)"
    )


def _buckets(steps: Steps, exposed_s: float) -> Iterator[str]:
    """Whether messages set out too late, or are too small."""
    messages = float(typical(steps["messages"]).mean())
    if not messages:
        return  # inside PyTorch's own wrapper, which does not tell
    # Only the last micro-batch's backward makes gradients final, so only that can hide messages.
    last_s = float(typical(steps["backward_s"] / np.maximum(steps["micro_batches"], 1)).mean())
    before = ("data_s", "copy_s", "forward_s", "backward_s")
    ended_s = float(typical(sum((steps[name] for name in before), np.zeros(1))).mean())
    first_s = float(np.nanmean(typical(steps["first_ready_s"])))
    each_bytes = float(typical(steps["sent_bytes"]).mean()) / messages
    hidden_s = float(typical(steps["hidden_sync_s"]).mean())
    could_s = min(exposed_s, max(last_s - hidden_s, 0.0))
    if first_s > ended_s - (1 - LATE) * last_s and could_s > 0:
        yield (
            f"a smaller sync.bucket_bytes: now {messages:.0f} messages, of which the first sets "
            f"out after half of the last backward; at most {could_s:.3g} s a step could hide there"
        )
    elif messages >= MANY and each_bytes < SMALL_BYTES:
        yield (
            f"a larger sync.bucket_bytes: now {messages:.0f} messages of {each_bytes / 1e3:,.0f} kB"
        )


def _fewer_cards(steps: Steps, exposed_s: float) -> Iterator[str]:
    """As many cards as would be as fast, if messages grow with (n - 1) / n, as a ring's do."""
    ranks = steps.ranks
    if ranks < 2:
        return
    alone_s = (wall_s(steps) - exposed_s) * ranks
    whole_s = exposed_s * ranks / (ranks - 1)
    step_s = {m: alone_s / m + whole_s * (m - 1) / m for m in range(1, ranks)}
    enough = [m for m, seconds in step_s.items() if seconds <= wall_s(steps)]
    if enough:
        cards = "1 card" if enough[0] == 1 else f"{enough[0]} cards"
        yield f"{cards} instead of {ranks} would be as fast, by these figures"
        return
    gain = min(step_s.values()) / wall_s(steps)
    yield f"a card less would make a step {gain:.2f} times as long, by these figures"
