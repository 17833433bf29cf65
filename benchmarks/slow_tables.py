"""The results of ``benchmarks.slow_network`` as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.link_steps import PEER
from benchmarks.paired import ratio

GOALS = {"ring": 1.05, "all_reduce": 1.10, "tree": 1.20}
"""Times the ideal, at most."""
SAME = 1e-4
"""Relative distance between weights that learned the same."""


def document(results: Mapping[str, Any]) -> str:
    """All there is."""
    parts = [_transfer(one) for one in results["transfers"]]
    if results["training"] is not None:
        parts.append(_training(results["training"]))
    for facts in ("network", "machine", "versions"):
        parts.append(", ".join(f"{name} {value}" for name, value in results[facts].items()) + ";")
    parts.append(f"`{results['command']}`.")
    return "\n\n".join(parts)


def ideal_s(one: Mapping[str, Any]) -> float:
    """What the stream needs for the least that has to travel."""
    ranks, stream_s = int(one["ranks"]), float(median(one["stream_s"]))
    return 2 * (ranks - 1) / ranks * stream_s


def _transfer(one: Mapping[str, Any]) -> str:
    ideal, size = ideal_s(one), one["bytes"]
    rate = size * 8 / median(one["stream_s"]) / 1e6
    lines = [
        f"#### transfer: {one['ranks']} ranks, {size / 1e6:g} MB",
        "",
        f"A plain stream of as many bytes takes {spread(one['stream_s'])} s ({rate:.1f} Mbit/s), "
        f"so the ideal is {ideal:.3f} s.",
        "",
        row(["strategy", "seconds", "of the ideal", "sent by a rank / D", "goal"]),
        row(["---", "--:", "--:", "--:", "---"]),
    ]
    for name, found in one["strategies"].items():
        shares = [seconds / ideal for seconds in found["seconds"]]
        sent = max(found["sent_bytes"]) / size
        goal = GOALS[name]
        verdict = f"at most {goal:g}: {'met' if median(shares) <= goal else 'missed'}"
        lines.append(row([name, spread(found["seconds"]), spread(shares), f"{sent:.2f}", verdict]))
    return "\n".join(lines)


def bound_s(facts: Mapping[str, Any], bytes_per_s: float) -> float:
    """The earliest moment of a step at which all sums can be there on a line of that speed.

    What becomes ready at r and after it cannot be through before r + its bytes / the speed, for
    every r; two ranks send what they sum.
    """
    sizes: Sequence[int] = facts["bucket_bytes"]
    moments: Sequence[float] = facts["ready_s"]
    return max(ready + sum(sizes[k:]) / bytes_per_s for k, ready in enumerate(moments))


def _training(found: Mapping[str, Any]) -> str:
    steps, speed = found["steps"], found["stream_bytes_per_s"]
    rounds = len(steps[PEER])
    head = ["contender", "step, s", f"it / {PEER}", "sent, MB", "hidden, s", "exposed, s"]
    head += ["bound of that, s", "exposed / bound"]
    lines = [
        f"#### training: 2 ranks, {found['batch']} windows a step, {rounds} rounds",
        "",
        f"A plain stream carries {speed * 8 / 1e6:.1f} Mbit/s.",
        "",
        row(head),
        row(["---", *["--:"] * (len(head) - 1)]),
    ]
    peer = [facts["step_s"] for facts in steps[PEER]]
    for name, own in steps.items():
        seconds = [facts["step_s"] for facts in own]
        beside = "–" if name == PEER else str(ratio(seconds, peer))
        lines.append(row([name, spread(seconds), beside, *_messages(own, speed)]))
    return "\n".join([*lines, "", *_same(found)])


def _messages(own: Sequence[Mapping[str, Any]], speed: float) -> list[str]:
    if "ready_s" not in own[0]:
        return ["–"] * 5
    bounds = [bound_s(facts, speed) - facts["ready_s"][-1] for facts in own]
    exposed = [facts["exposed_s"] for facts in own]
    sent = median(facts["sent_bytes"] for facts in own)
    hidden = [facts["hidden_s"] for facts in own]
    shares = [seconds / bound for seconds, bound in zip(exposed, bounds, strict=True)]
    return [f"{sent / 1e6:.1f}", *(spread(values) for values in (hidden, exposed, bounds, shares))]


def _same(found: Mapping[str, Any]) -> list[str]:
    """Whether all learned the same."""
    losses = {
        name: [facts["loss"] for facts in own]
        for name, own in found["steps"].items()
        if "loss" in own[0]
    }
    first = next(iter(losses.values()))
    worst = max(
        abs(a - b) / abs(b) for own in losses.values() for a, b in zip(own, first, strict=True)
    )
    apart = max(found["apart"].values())
    verdict = "all learned the same" if apart <= SAME else "NOT all learned the same"
    return [
        f"Losses of lightwork's contenders differ by at most {worst:.1e} of their size; weights, "
        f"{PEER}'s among them, by {apart:.1e} of their length after the last step: {verdict}."
    ]


def spread(values: Sequence[float]) -> str:
    """Median, least and most."""
    return f"{median(values):.3f} ({min(values):.3f} – {max(values):.3f})"


def row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"
