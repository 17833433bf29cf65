"""Where the time of a run went, in words and in a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from lightwork.report.finding import Finding, typical, wall_s
from lightwork.report.findings import findings
from lightwork.report.listing import Column, show_columns
from lightwork.report.steps import Steps, choices_of, read_course, read_steps
from lightwork.telemetry.records import STEP_PARTS

NAMES = {
    "straggler": "straggler",
    "communication": "communication-bound",
    "data": "data-bound",
    "imbalance": "unequal shares",
    "micro_batches": "small micro-batches",
    "padding": "padding",
    "duties": "duties",
    "memory": "memory",
    "bad_shard": "a loss out of line",
    "spike": "a gradient out of line",
    "compute": "compute-bound",
}
SHOWN = 8
"""Examples that a sentence names; ``--json`` has all of them."""
SAID = 1.02
"""Less than this is no gain worth a word."""


def sentence(finding: Finding) -> str:
    """The verdict and its evidence."""
    return f"{NAMES[finding.kind]}: {finding.words}{_of(finding)}"


def _of(finding: Finding) -> str:
    """The examples behind it, or the windows where nobody has looked up of which they are."""
    what, behind = ("examples", finding.examples) if finding.examples else ("windows", ())
    behind = behind or tuple(map(str, finding.windows))
    if not behind:
        return ""
    more = f", … ({len(behind)} in all)" if len(behind) > SHOWN else ""
    return f" (with the {what} {', '.join(behind[:SHOWN])}{more})"


def explained(run: Path) -> tuple[Steps, list[Finding]]:
    """The steps of the run in a folder, and what they tell; RunError where they tell nothing."""
    steps = replace(read_steps(run), choices=choices_of(run))
    return steps, findings(steps, read_course(run))


def as_json(steps: Steps, found: list[Finding]) -> dict[str, Any]:
    """All of it for programs; seconds are medians over the steps, one for each rank."""
    parts = {name: typical(steps[f"{name}_s"]).tolist() for name in ("step", *STEP_PARTS)}
    return {
        "steps": [int(steps.numbers[0]), int(steps.numbers[-1])],
        "ranks": steps.ranks,
        "step_s": wall_s(steps),
        "seconds": parts,
        "findings": [finding.as_json() for finding in found],
    }


def show(console: Console, steps: Steps, found: list[Finding]) -> None:
    """Print the verdict, what to do, and where a step goes on each rank."""
    first, last = int(steps.numbers[0]), int(steps.numbers[-1])
    speed = float(steps["batch_windows"][0].mean()) / wall_s(steps)
    ranks = "1 rank" if steps.ranks == 1 else f"{steps.ranks} ranks"
    each = f"{wall_s(steps):.3g} s each, {speed:.3g} windows/s"
    lines = [f"steps {first} … {last} on {ranks}: {each}"]
    for finding in found:
        gain = (
            f"; were it gone, up to {finding.speedup:.2f} times as fast"
            if finding.speedup > SAID
            else ""
        )
        lines += ["", sentence(finding), f"  do: {finding.todo}{gain}"]
    for line in [*lines, ""]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    show_columns(console, _table(steps))


def _table(steps: Steps) -> list[Column]:
    """Milliseconds of the median step; parts that no rank spends a moment in are left out."""
    medians = {part: 1000 * typical(steps[f"{part}_s"]) for part in (*STEP_PARTS, "step")}
    shown = [part for part, values in medians.items() if values.max() >= 0.05]
    return [
        Column("ms a step", shown),
        *(
            Column(f"rank {rank}", [f"{medians[part][rank]:,.1f}" for part in shown], number=True)
            for rank in range(steps.ranks)
        ),
    ]
