"""From outcomes to figures: medians, ratios with their spread, and Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Outcome = Mapping[str, Any]
"""A ``racing.Outcome`` as it lies in the file of results."""

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Measure:
    """One column of a table."""

    title: str
    ratio: bool
    """Compared as lightwork / peer; otherwise as lightwork - peer."""
    digits: int
    modes: tuple[str, ...]


MEASURES = {
    "windows_per_s": Measure("windows/s, median step", True, 2, ("steady",)),
    "mean_windows_per_s": Measure("windows/s, all steps", True, 2, ("steady", "whole")),
    "first_step_s": Measure("first step after, s", True, 1, ("first-step",)),
    "wall_s": Measure("whole run, s", True, 1, ("whole",)),
    "peak_memory_mib": Measure("peak memory, MiB", True, 0, ("steady", "whole")),
    "exact_match": Measure("exact match", False, 1, ("whole",)),
    "f1": Measure("F1", False, 1, ("whole",)),
}


def figures(outcome: Outcome, warmup_steps: int) -> dict[str, float]:
    """All measures of one run; ``warmup_steps`` steps, the first included, are left out of rates.

    ``windows_per_s`` is the median over the steps of windows per second, so that one disturbed
    step does not count; ``mean_windows_per_s`` is all their windows by all their seconds, which
    short and long batches weigh in alike.
    """
    found = {
        "first_step_s": outcome["first_step_s"],
        "wall_s": outcome["wall_s"],
        "peak_memory_mib": outcome["peak_memory_bytes"] / MEBIBYTE,
    }
    skipped = max(warmup_steps - 1, 0)  # the first step has no duration
    seconds, windows = outcome["step_s"][skipped:], outcome["step_windows"][skipped:]
    if seconds:
        rates = [count / took_s for count, took_s in zip(windows, seconds, strict=True)]
        found["windows_per_s"] = statistics.median(rates)
        found["mean_windows_per_s"] = sum(windows) / sum(seconds)
    for name in ("exact_match", "f1"):
        if name in outcome.get("scores", {}):
            found[name] = outcome["scores"][name]
    return found


@dataclass(frozen=True)
class Compared:
    """One measure of one peer against lightwork, over all repeats."""

    raw: tuple[float, float, float]
    """The peer's own median, least and most."""
    against: tuple[float, float, float] | None
    """Median, least and most of lightwork / peer (or lightwork - peer) within each repeat."""


def compare(outcomes: Sequence[Outcome], warmup_steps: int) -> dict[str, dict[str, Compared]]:
    """Contender -> measure -> figures. Ratios are taken within a repeat: both ran side by side."""
    by_run = {(o["contender"], o["repeat"]): figures(o, warmup_steps) for o in outcomes}
    names = list(dict.fromkeys(outcome["contender"] for outcome in outcomes))
    result: dict[str, dict[str, Compared]] = {}
    for name in names:
        own = {repeat: found for (who, repeat), found in by_run.items() if who == name}
        result[name] = {}
        for measure in MEASURES:
            values = {r: found[measure] for r, found in own.items() if measure in found}
            ours = {r: by_run.get(("lightwork", r), {}).get(measure) for r in values}
            pairs = [(mine, values[r]) for r, mine in ours.items() if mine is not None]
            if values:
                against = None if name == "lightwork" else _against(measure, pairs)
                result[name][measure] = Compared(_spread(list(values.values())), against)
    return result


def _against(measure: str, pairs: list[tuple[float, float]]) -> tuple[float, float, float] | None:
    if not pairs:
        return None
    if not MEASURES[measure].ratio:
        return _spread([mine - other for mine, other in pairs])
    return _spread([mine / other for mine, other in pairs])


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def table(mode: str, outcomes: Sequence[Outcome], warmup_steps: int) -> str:
    """The Markdown table of one mode: raw figures, and beside them lightwork against each peer."""
    compared = compare(outcomes, warmup_steps)
    measures = {
        name: measure
        for name, measure in MEASURES.items()
        if mode in measure.modes and any(name in found for found in compared.values())
    }
    head = ["contender"]
    for measure in measures.values():
        head += [measure.title, "lightwork / it" if measure.ratio else "lightwork − it"]
    lines = [_row(head), _row(["---"] + ["--:"] * (len(head) - 1))]
    for name, found in compared.items():
        cells = [name]
        for key, measure in measures.items():
            one = found.get(key)
            cells.append(_shown(one.raw, measure.digits) if one else "–")
            digits = 2 if measure.ratio else measure.digits
            sign = "" if measure.ratio else "+"
            against = one.against if one else None
            cells.append(f"**{_shown(against, digits, sign)}**" if against else "–")
        lines.append(_row(cells))
    return "\n".join(lines)


def _shown(spread: tuple[float, float, float], digits: int, sign: str = "") -> str:
    middle, least, most = (f"{value:{sign},.{digits}f}" for value in spread)
    return middle if least == most else f"{middle} ({least} – {most})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plan_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The Markdown table of plan mode: wasted token time, and the throughput that follows."""
    head = ["ranks × windows", "plan", "wasted token time", "lightwork / it"]
    lines = [_row(head), _row(["--:", "---", "--:", "--:"])]
    for row in rows:
        waste = _spread([100 * value for value in row["waste"]])
        ratio = _spread(row["ratio"])
        is_own = row["plan"] == "lightwork"
        cells = [
            f"{row['ranks']} × {row['rank_batch']}",
            row["plan"],
            f"{_shown(waste, 1)} %",
            "–" if is_own else f"**{_shown(ratio, 2)}**",
        ]
        lines.append(_row(cells))
    return "\n".join(lines)


def document(results: Mapping[str, Any]) -> str:
    """Everything in a file of results as Markdown, each mode under its own heading."""
    parts = []
    for mode, race in results["modes"].items():
        repeats = len({outcome["repeat"] for outcome in race.get("outcomes", [])})
        parts.append(f"### {mode}\n")
        if mode == "plan":
            parts.append(plan_table(race["rows"]))
        else:
            parts.append(table(mode, race["outcomes"], race["warmup_steps"]))
        facts = [
            f"{repeats} alternating repeats" if repeats else "",
            ", ".join(f"{name} {value}" for name, value in race["machine"].items()),
            ", ".join(f"{name} {value}" for name, value in race["versions"].items()),
            f"`{race['command']}`",
        ]
        parts.append("\n" + "; ".join(fact for fact in facts if fact) + ".\n")
    return "\n".join(parts)
