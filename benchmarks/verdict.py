"""Whether ``lightwork explain`` names what was planted: ``python -m benchmarks.verdict``.

Trains a small model on two ranks with one fault after the other (``benchmarks/planting.py``), each
several times, and asks ``explain`` about each run. Prints a matrix of what was planted by what was
found, what every run that missed has recorded, and what a step is left with that belongs to no
part. Ends with 1 where anything was missed. Ranks are pinned to cores of their own; nothing else
may run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from benchmarks.faults import CABLE, DIRTY_STEP, NOTHING, Answer, Planted, faults, write_settings
from benchmarks.launching import environment
from benchmarks.machine import machine, versions
from benchmarks.namespaces import missing, network, run_ranks
from benchmarks.planting import VARIABLE
from lightwork.assembly.suspects import named
from lightwork.errors import LightworkError
from lightwork.report.explaining import explained
from lightwork.report.finding import typical, wall_s

OTHER = 0.03
"""Of a median step, at most, in no part."""
CABLE_TIMES = 2.0
"""A step without it, in which all messages of a step pass the slow cable."""
TIMEOUT_S = 900.0


class Trials:
    """The runs, all in one folder."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder = folder
        self.settings = write_settings(folder, steps)
        self.cores = sorted(os.sched_getaffinity(0))
        self._runs = 0

    def ask(self, planted: Planted, ranks: int = 2) -> Answer:
        """Train with the fault, and explain the run."""
        told = json.dumps(planted.told(self.cores))
        shares = () if ranks == 2 else (f"train.shares={ranks}",)
        run = self._next()
        command = [*self._command(run), *planted.overrides, *shares, "--ranks", str(ranks)]
        with hog(self.cores[1 % len(self.cores)]) if planted.hog else nullcontext():
            log = run.with_suffix(".txt")
            with log.open("wb") as file:
                code = subprocess.run(
                    command, stdout=file, stderr=subprocess.STDOUT, check=False,
                    env={**environment(), VARIABLE: told}, timeout=TIMEOUT_S,
                ).returncode  # fmt: skip
        return self._answer(planted, run, log, code)

    def ask_on_hosts(self, calm: Answer) -> Answer:
        """Train on two hosts with a cable between them that is too slow for what ``calm`` sent."""
        sent = float(typical(calm.steps["sent_bytes"]).mean())
        run = self._next()
        log = run.with_suffix(".txt")
        told = {**environment(), VARIABLE: json.dumps(CABLE.told(self.cores))}
        rate_mbit = 8 * sent / (CABLE_TIMES * wall_s(calm.steps)) / 1e6
        with network(2, rate_mbit) as net, log.open("wb") as file:
            run_ranks(net, self._command(run)[2:], told, TIMEOUT_S, file)
        return self._answer(CABLE, run, log, 0)

    def _next(self) -> Path:
        self._runs += 1
        return self.folder / f"run{self._runs}"

    def _command(self, run: Path) -> list[str]:
        own = [sys.executable, "-m", "benchmarks.planting", "train", str(self.settings)]
        return [*own, "--run", str(run)]

    def _answer(self, planted: Planted, run: Path, log: Path, code: int) -> Answer:
        if code:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise LightworkError(f"{planted.name}: ended with {code}; its output:\n{tail}")
        steps, found = explained(run)
        return Answer(planted, steps, named(found, run, steps.ranks))


@contextmanager
def hog(core: int) -> Iterator[None]:
    """Another program computes on this core."""
    busy = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile 1: pass"]
    process = subprocess.Popen(busy)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def matrix(answers: Sequence[Answer]) -> str:
    """A row for what was planted, a column for what was found."""
    columns = list(dict.fromkeys([*(a.planted.kind for a in answers), *(a.kinds for a in answers)]))
    lines = ["| planted | " + " | ".join(columns) + " |", "| --- |" + " --: |" * len(columns)]
    for name in dict.fromkeys(answer.planted.name for answer in answers):
        found = Counter(answer.kinds for answer in answers if answer.planted.name == name)
        lines.append(f"| {name} | " + " | ".join(str(found[kind] or "") for kind in columns) + " |")
    return "\n".join(lines)


def others(trials: Trials) -> list[str]:
    """What of a step belongs to no part, on 1, 2 and 4 ranks; returns what is too much."""
    wrong = []
    for ranks in (1, 2, 4):
        steps = trials.ask(NOTHING, ranks).steps
        part = float((typical(steps["other_s"]) / typical(steps["step_s"])).max())
        print(f"in no part of a step on {ranks} ranks: {part:.2%}, at most {OTHER:.0%}", flush=True)
        if part > OTHER:
            wrong.append(f"{part:.2%} of a step on {ranks} ranks is in no part")
    return wrong


def proven(trials: Trials, repeats: int, only: str | None) -> list[str]:
    """Run all, print, and return what is wrong."""
    rows = [row for row in (NOTHING, *faults()) if only is None or only in row.name]
    answers = [_said(trials.ask(row)) for _ in range(repeats) for row in rows]
    calm = [answer for answer in answers if answer.planted is NOTHING]
    why = missing()
    if why is not None:
        print(f"{CABLE.name}: skipped, {why}; {faults()[4].name} is planted in the messages alone")
    elif calm:
        answers += [_said(trials.ask_on_hosts(calm[-1])) for _ in range(repeats)]
    print("\n" + matrix(answers) + "\n")
    return [f"{a.planted.name}: {a.missed()}" for a in answers if a.missed() is not None]


def _said(answer: Answer) -> Answer:
    first, missed = answer.found[0], answer.missed()
    factor = f", {first.factor:.2f} times" if first.factor else ""
    gain = f", up to {first.speedup:.2f} times as fast without"
    print(f"{answer.planted.name}: {answer.kinds}{factor}{gain}", flush=True)
    if missed is not None:
        print(f"  MISSED: {missed}\n{answer.told()}", flush=True)
    return answer


def main(given: Sequence[str] | None = None) -> None:
    """Plant, ask and compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80, help=f"of a run, more than {DIRTY_STEP}")
    parser.add_argument("--only", help="faults whose name holds this, and no other measurement")
    parser.add_argument("--keep", type=Path, help="a new folder for the runs, which stay there")
    asked = parser.parse_args(given)
    print(", ".join(f"{name} {value}" for name, value in {**machine(), **versions()}.items()))
    with ExitStack() as closing:
        if asked.keep is None:
            folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="verdict-")))
        else:
            folder = asked.keep.absolute()
            folder.mkdir(parents=True)
        try:
            trials = Trials(folder, asked.steps)
            wrong = proven(trials, asked.repeats, asked.only)
            wrong += [] if asked.only else others(trials)
        except LightworkError as error:
            sys.exit(f"verdict: {error}")
    print("all as planted" if not wrong else "")
    if wrong:
        sys.exit("\n".join(f"verdict: {problem}" for problem in wrong))


if __name__ == "__main__":
    main()
