"""Does decoding hide behind the forwards? ``evaluation.py RUN DATA``.

In one process and in alternation, times (a) the forwards of all evaluation batches alone and (b)
the same forwards with spans decoded in the other thread, as ``train/evaluate.py`` does it, plus
merging and scoring. Prints the seconds of every pair and the median ratio b / a.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import torch

from lightwork.assembly.building import build_replica, build_task
from lightwork.assembly.preparing import prepare_store
from lightwork.comm.group import Group
from lightwork.data.plan import evaluation_batches, round_to_on
from lightwork.data.store import Store
from lightwork.settings import load_settings, locate
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.train.evaluate import evaluate, evaluating
from lightwork.train.model import Model


def forwards_alone(model: Model, store: Store, batch_tokens: int) -> float:
    """Seconds of all forwards, nothing decoded."""
    started_s = time.perf_counter()
    with evaluating(model):
        for micro in evaluation_batches(store.column("tokens"), batch_tokens, round_to_on("cpu")):
            batch = model.task.collate(store, micro.windows, micro.padded_tokens)
            model.task.forward(model.module, model.on_device(batch))
    return time.perf_counter() - started_s


def whole(model: Model, store: Store, batch_tokens: int) -> float:
    """Seconds of a whole evaluation, scores included."""
    started_s = time.perf_counter()
    evaluate(Group.alone(), model, store, batch_tokens)
    return time.perf_counter() - started_s


def main() -> None:
    """Time alternating pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = load_settings(locate(arguments.run)[0], [])
    folder = str((arguments.run / "best/model").resolve())
    tokenizer = load_tokenizer(folder)
    store = prepare_store(settings, tokenizer, [arguments.data], training=False)
    module = build_replica(Group.alone(), settings, folder, len(tokenizer), "cpu")
    task = build_task(settings, tokenizer, no_answer=False)
    model = Model(module, module, task, torch.device("cpu"), lambda windows: [str(windows)])
    batch_tokens = settings.evaluate.batch_tokens
    ratios = []
    for number in range(arguments.pairs):
        order = (forwards_alone, whole) if number % 2 == 0 else (whole, forwards_alone)
        seconds = {function: function(model, store, batch_tokens) for function in order}
        ratios.append(seconds[whole] / seconds[forwards_alone])
        print(
            f"forwards {seconds[forwards_alone]:.2f} s  whole {seconds[whole]:.2f} s  "
            f"ratio {ratios[-1]:.3f}"
        )
    print(f"median ratio {statistics.median(ratios):.3f} over {len(ratios)} pairs")


if __name__ == "__main__":
    main()
