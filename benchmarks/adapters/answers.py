"""Logits of windows -> one answer a question, the way question-answering examples commonly do it.

For each question in turn, and each of its windows: take the n best start tokens and the n best end
tokens, look at every pair of them, drop those that are outside of the context, backwards or too
long, and keep the pair with the highest sum of logits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.adapters.features import Features
from benchmarks.adapters.spec import PREDICTIONS, Spec

Logits = NDArray[np.floating[Any]]
Span = tuple[float, int, int]


def write_answers(spec: Spec, features: Features, starts: Logits, ends: Logits) -> None:
    """Answer the dev questions into ``out/predictions.json``: ``{id: text}``.

    ``starts`` and ``ends``: ``[windows, tokens]``, rows in the order of ``features``.
    """
    examples = json.loads(Path(spec.dev_examples).read_text(encoding="utf-8"))
    windows_of: list[list[int]] = [[] for _ in examples]
    for window, example in enumerate(features.example.tolist()):
        windows_of[example].append(window)
    answers = {}
    for example, windows in zip(examples, windows_of, strict=True):
        found = [_best_span(spec, features, w, starts[w], ends[w]) for w in windows]
        best = max((span for span in found if span is not None), default=None)
        answers[example["id"]] = example["context"][best[1] : best[2]] if best else ""
    (Path(spec.out) / PREDICTIONS).write_text(json.dumps(answers), encoding="utf-8")


def _best_span(
    spec: Spec, features: Features, window: int, start: Logits, end: Logits
) -> Span | None:
    """Score and characters of the best answer in one window."""
    first, behind = features.context[window].tolist()
    offsets = features.offsets[features.starts[window] :]
    best = None
    for left in np.argsort(start)[: -spec.n_best - 1 : -1].tolist():
        for right in np.argsort(end)[: -spec.n_best - 1 : -1].tolist():
            if left < first or right >= behind or right < left:
                continue
            if right - left >= spec.max_answer_tokens:
                continue
            span = (float(start[left] + end[right]), int(offsets[left][0]), int(offsets[right][1]))
            best = span if best is None or span > best else best
    return best
