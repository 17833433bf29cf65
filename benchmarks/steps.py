"""Steps side by side: ``python -m benchmarks.steps --out steps.json [SECTION.KEY=VALUE …]``.

lightwork's ways to sum gradients, PyTorch's DistributedDataParallel in a written loop, and ranks
that send nothing at all, in the same processes: in each round every one does a step with the same
windows, in random order, all ranks beginning together. So a ratio is one of two that met the same
machine, and the figures are medians over the rounds with bootstrap intervals.

    python -m benchmarks.steps --table steps.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.launching import MODEL, environment, numbers, write_settings
from benchmarks.machine import machine, versions
from benchmarks.one_rank import save
from benchmarks.paired import Interval, ratio
from benchmarks.stepping import CONTENDERS, Request
from lightwork.comm.supervisor import Launch, supervise
from lightwork.errors import LightworkError
from lightwork.settings import check_files, load_settings

SETTINGS: dict[str, dict[str, Any]] = {
    "data": {"on_mismatch": "drop"},
    "train": {"schedule": "constant", "warmup_ratio": 0},
    "sync": {"timeout_s": 300},
    "launch": {"device": "cpu", "threads": 1},
}
ENOUGH_PAIRS = 100
GRACE_S = 5.0

Seconds = Mapping[str, Sequence[float]]
"""Contender -> seconds of each round."""


@dataclass(frozen=True)
class Goal:
    """What a ratio should come to."""

    of: str
    to: str
    """``of`` / ``to``, seconds by seconds."""
    words: str
    limit: float
    at_least: bool = False
    upper_end: bool = False
    """Of the interval, otherwise the median."""

    def line(self, found: Interval) -> str:
        """What was found and whether it is enough."""
        value = found.high if self.upper_end else found.median
        good = value >= self.limit if self.at_least else value <= self.limit
        verdict = "met" if good else "missed"
        if found.count < ENOUGH_PAIRS:
            verdict = f"not measured: {found.count} rounds, {ENOUGH_PAIRS} are needed"
        bound = "at least" if self.at_least else "at most"
        where = "the upper end " if self.upper_end else ""
        return f"{self.words.format(found)}; goal {where}{bound} {self.limit:g}: {verdict}"


GOALS = (
    Goal("none", "all_reduce", "all_reduce reaches {} of the ceiling", 0.95, at_least=True),
    Goal("all_reduce", "plain-ddp", "all_reduce / plain-ddp {}", 1.03, upper_end=True),
    Goal("tree", "all_reduce", "tree / all_reduce {}", 1.15),
    Goal("tree-8", "all_reduce-8", "tree-8 / all_reduce-8 {}", 1.15),
)


def table(seconds: Seconds) -> str:
    """One row for each contender: its own median, and its ratios to the references."""
    head = ["contender", "median step, ms", "of the ceiling (none / it)"]
    head += ["it / plain-ddp", "it / all_reduce"]
    lines = [_row(head), _row(["---", *(["--:"] * (len(head) - 1))])]
    for name, own in seconds.items():
        pairs = [("none", name), (name, "plain-ddp"), (name, "all_reduce")]
        ratios = ["–" if name == "none" else _ratio(seconds, of, to) for of, to in pairs]
        lines.append(_row([name, f"{1000 * median(own):,.0f}", *ratios]))
    return "\n".join(lines)


def _ratio(seconds: Seconds, of: str, to: str) -> str:
    if of == to or of not in seconds or to not in seconds:
        return "–"
    return str(ratio(seconds[of], seconds[to]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def verdicts(seconds: Seconds) -> list[str]:
    """The goals whose contenders ran."""
    ran = [goal for goal in GOALS if {goal.of, goal.to} <= set(seconds)]
    return [goal.line(ratio(seconds[goal.of], seconds[goal.to])) for goal in ran]


def document(results: Mapping[str, Any]) -> str:
    """A file of results as Markdown."""
    parts = []
    for batch, seconds in results["seconds"].items():
        rounds = len(next(iter(seconds.values())))
        parts.append(f"#### {batch} windows a step, {rounds} rounds\n\n{table(seconds)}\n")
        parts += [f"- {line}" for line in verdicts(seconds)]
        parts.append("")
    for facts in ("machine", "versions"):
        parts.append(", ".join(f"{name} {value}" for name, value in results[facts].items()) + ";")
    parts.append(f"`{results['command']}`.")
    return "\n".join(parts)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    add = made.add_argument
    add("overrides", nargs="*", metavar="SECTION.KEY=VALUE", help="settings of all contenders")
    add("--table", type=Path, metavar="RESULTS", help="print the tables of a file")
    add("--data", type=Path, help="file of training questions; otherwise the built-in sample")
    add("--model", default=MODEL, help="as model.source of lightwork's settings")
    add("--ranks", type=int, default=2, help="processes, of one compute thread each")
    add("--batch", type=numbers, default=[16, 64], help="windows behind an update, over all ranks")
    add("--pairs", type=int, default=ENOUGH_PAIRS, help="rounds that count")
    add("--warmup", type=int, default=3, help="rounds before those")
    add(
        "--contenders",
        type=lambda text: text.split(","),
        default=list(CONTENDERS),
        help="by their names",
    )
    add("--seed", type=int, default=1, help="of the order in the rounds")
    add("--out", type=Path, default=Path("steps.json"), help="file of results")
    return made


def main(given: list[str] | None = None) -> None:
    """Measure, or print a table."""
    arguments = parser().parse_intermixed_args(given)
    try:
        if arguments.table is not None:
            print(document(json.loads(arguments.table.read_text(encoding="utf-8"))))
            return
        _check(arguments)
        given = sys.argv[1:] if given is None else given
        results = measured(arguments, f"python -m benchmarks.steps {shlex.join(given)}")
    except LightworkError as error:
        sys.exit(f"steps: {error}")
    print(document(results))


def measured(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """One size of batch after the other, each written to ``--out`` as soon as it is there."""
    seconds: dict[str, dict[str, list[float]]] = {}
    results = {"command": command, "machine": machine(), "versions": versions()}
    results["seconds"] = seconds
    for batch in arguments.batch:
        with tempfile.TemporaryDirectory(prefix="steps-") as folder:
            seconds[str(batch)] = side_by_side(arguments, batch, Path(folder))
        arguments.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is started."""
    wrong = []
    unknown = [name for name in arguments.contenders if name not in CONTENDERS]
    if unknown:
        choice = ", ".join(CONTENDERS)
        wrong.append(f"--contenders: {', '.join(unknown)} is not known; choose from {choice}")
    if arguments.ranks < 2:
        wrong.append(f"--ranks {arguments.ranks}: one rank sends nothing; give 2 or more")
    if arguments.pairs < 1 or arguments.warmup < 2:
        wrong.append("--pairs needs 1 or more and --warmup 2 or more: first steps form the buckets")
    if not arguments.out.absolute().parent.is_dir():
        wrong.append(f"--out {arguments.out}: there is no such folder")
    if wrong:
        raise LightworkError("; ".join(wrong))
    if arguments.data is not None:
        check_files("--data", [str(arguments.data)])


def side_by_side(arguments: argparse.Namespace, batch: int, folder: Path) -> dict[str, list[float]]:
    """Start the ranks and wait for what they measured: contender -> seconds of each round."""
    values = {**SETTINGS, "model": {"source": arguments.model}}
    settings = write_settings(folder, values, arguments.data)
    load_settings(settings, arguments.overrides)  # mistakes are told here, once
    out, request_file = folder / "seconds.json", folder / "request.json"
    request = Request(
        settings=str(settings),
        overrides=arguments.overrides,
        run=str(folder / "run"),
        contenders=arguments.contenders,
        batch=batch,
        warmup=arguments.warmup,
        pairs=arguments.pairs,
        seed=arguments.seed,
        out=str(out),
    )
    save(request, request_file)
    code = supervise(
        Launch(
            command=(sys.executable, "-m", "benchmarks.stepping", str(request_file)),
            ranks=arguments.ranks,
            run_id="steps",
            log_dir=folder / "run/logs",
            environment=environment(),
            grace_s=GRACE_S,
        )
    )
    if code:
        raise LightworkError(f"the ranks ended with {code}; the reason is above")
    found: dict[str, list[float]] = json.loads(out.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
