"""What one GPU can do, in at most ``--minutes``: ``python -m benchmarks.gpu --out gpu.json``.

Training steps (forward, span loss, backward, clipping, AdamW) of a BERT of random weights, or of
``--model``, on random windows of mixed lengths: precisions, attention kernels, optimizer kernels,
window lengths, windows at a time up to the end of memory, gaps between kernels, and lightwork
beside the tuned Trainer. What there is no time or no device for is listed as "not measured".
``--miniature`` runs a tiny model for a few steps, on any machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_sections import SECTIONS, Case, Course
from benchmarks.machine import machine, versions
from lightwork.errors import LightworkError

COLUMNS = {
    "windows_per_s": ("windows/s", 1),
    "tokens_per_s": ("tokens/s", 0),
    "step_ms": ("step, ms", 2),
    "peak_mib": ("peak, MiB", 0),
}
CASE_S = 4.0
"""Seconds that one case is repeated for, and at least three steps."""


@dataclass
class Report:
    """All results so far, in the order they came."""

    facts: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, section: str, case: str, figures: dict[str, float], note: str = "") -> None:
        """Keep one line and show it at once."""
        row = {"section": section, "case": case, **figures, "note": note}
        self.rows.append(row)
        print(_row(row), flush=True)

    def write(self, path: Path) -> None:
        """Everything as JSON, in one move."""
        temporary = path.with_name(path.name + ".new")
        content = {**self.facts, "rows": self.rows}
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        temporary.replace(path)


def _row(row: dict[str, Any]) -> str:
    cells = [row["section"], row["case"]]
    for name, (_, digits) in COLUMNS.items():
        cells.append(f"{row[name]:,.{digits}f}" if name in row else "–")
    known = {"section", "case", "note", *COLUMNS}
    others = [f"{name} {value:.2f}" for name, value in row.items() if name not in known]
    return f"| {' | '.join([*cells, ', '.join(filter(None, [*others, row['note']]))])} |"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    add = made.add_argument
    add("--model", help="folder of a BERT-like model; otherwise BERT-base with random weights")
    add("--minutes", type=float, default=8.0, help="for everything together")
    add("--sections", default=",".join(SECTIONS), help="names, separated by commas")
    add("--miniature", action="store_true", help="a tiny model and a few steps")
    add("--out", type=Path, default=Path("gpu.json"))
    return made


def main(given: list[str] | None = None) -> None:
    """Measure section after section until all are done or the time is up."""
    arguments = parser().parse_args(given)
    names = arguments.sections.split(",")
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        choice = ", ".join(SECTIONS)
        sys.exit(f"gpu: --sections: {', '.join(unknown)} is not known; choose from {choice}")
    ends_s = time.monotonic() + arguments.minutes * 60
    cuda = torch.cuda.is_available()
    course = Course(
        device=torch.device("cuda" if cuda else "cpu"),
        source=arguments.model,
        miniature=arguments.miniature,
        case_s=0.0 if arguments.miniature else CASE_S,
        left_s=lambda: ends_s - time.monotonic(),
    )
    facts = {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "machine": machine(),
        "versions": versions(),
        "settings": {name: str(value) for name, value in vars(arguments).items()},
    }
    report = Report(facts)
    print(f"on {facts['device']}, model {course.model_name}, at most {arguments.minutes:g} minutes")
    head = ["section", "case", *(title for title, _ in COLUMNS.values()), "note"]
    print(f"| {' | '.join(head)} |\n| --- | --- |{' --: |' * len(COLUMNS)} --- |")
    for name in names:
        run_section(report, name, SECTIONS[name](course), course.left_s)
        report.write(arguments.out)


def run_section(
    report: Report, name: str, cases: Iterator[Case], left_s: Callable[[], float]
) -> None:
    """Measure the cases one by one; one that fails is noted and the next one goes on."""
    for case in cases:
        if case.needs_s > left_s():
            note = f"not measured: needs {case.needs_s:.0f} s, {max(left_s(), 0):.0f} s are left"
            report.add(name, case.title, {}, note)
            continue
        figures, note = attempt(case)
        report.add(name, case.title, figures, note)


def attempt(case: Case) -> tuple[dict[str, float], str]:
    """The figures of a case, or why there are none."""
    if case.missing:
        return {}, f"not measured: {case.missing}"
    try:
        return case.measure(), ""
    except torch.OutOfMemoryError:
        note = "out of memory"
    except (RuntimeError, LightworkError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        note = f"not measured: {lines[0][:120]}"
    # Only here, behind the except clause, the failed step's tensors are let go of.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return {}, note


if __name__ == "__main__":
    main()
