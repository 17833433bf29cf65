"""The sections of ``benchmarks.gpu``: each a generator of cases, measured one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu_steps import (
    Course,
    Trial,
    idle_share,
    measure_optimizer,
    measure_steps,
)

__all__ = ["SECTIONS", "Case", "Course"]

PEERS_S = 150.0
"""Two cold starts, the preparation, and some steps."""
LARGEST_TOKENS = 1 << 20


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    title: str
    measure: Callable[[], dict[str, float]]
    needs_s: float = 15.0
    """Not begun with less time than this."""
    missing: str = ""
    """Why it cannot be measured here; empty where it can."""


def precision(course: Course) -> Iterator[Case]:
    """Single precision, its tensor-core form, and bfloat16 by autocast; the master copy is fp32."""
    for title, matmul, autocast in (
        ("fp32", "highest", False),
        ("fp32, matrix products in TF32", "high", False),
        ("bf16 autocast", "highest", True),
    ):
        trial = Trial(matmul=matmul, autocast=autocast)
        missing = course.no_cuda if matmul == "high" else ""
        yield Case(title, partial(measure_steps, course, trial), missing=missing)


def peers(course: Course) -> Iterator[Case]:
    """lightwork and the tuned Trainer, each by its own command, fp32, on the same questions."""
    missing = "" if find_spec("accelerate") else "accelerate is not installed"
    yield Case(
        "lightwork / trainer-tuned", partial(_race, course), needs_s=PEERS_S, missing=missing
    )


def _race(course: Course) -> dict[str, float]:
    from benchmarks.gpu_peers import race_tuned_trainer

    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        return race_tuned_trainer(course, Path(folder))


def micro_batch(course: Course) -> Iterator[Case]:
    """Padded tokens of one forward and backward, doubled until memory ends; bf16."""
    tokens, full = course.base_tokens // 2, False
    while tokens <= (course.base_tokens if course.miniature else LARGEST_TOKENS) and not full:
        title = f"{tokens:,} padded tokens"
        outcome: list[bool] = []

        def measure(tokens: int = tokens, outcome: list[bool] = outcome) -> dict[str, float]:
            figures = measure_steps(course, Trial(tokens=tokens, autocast=True))
            outcome.append(True)
            return figures

        yield Case(title, measure)
        full = not outcome
        tokens *= 2
    if course.no_cuda:
        yield Case("limit of memory", dict, missing=course.no_cuda)


def attention(course: Course) -> Iterator[Case]:
    """Attention written out, and each kernel of PyTorch; bf16. Windows have mixed lengths."""
    yield Case("eager", partial(measure_steps, course, Trial(attention="eager", autocast=True)))
    yield Case("sdpa, as PyTorch chooses", partial(measure_steps, course, Trial(autocast=True)))
    for name, backend, padded in (
        ("math", SDPBackend.MATH, True),
        ("memory efficient", SDPBackend.EFFICIENT_ATTENTION, True),
        ("cuDNN", SDPBackend.CUDNN_ATTENTION, True),
        ("flash, windows all full, no mask", SDPBackend.FLASH_ATTENTION, False),
    ):
        trial = Trial(autocast=True, padded=padded)
        missing = "" if backend is SDPBackend.MATH else course.no_cuda
        yield Case(f"sdpa, {name}", partial(_with_kernel, course, trial, backend), missing=missing)


def _with_kernel(course: Course, trial: Trial, backend: SDPBackend) -> dict[str, float]:
    with sdpa_kernel(backend):
        return measure_steps(course, trial)


def gaps(course: Course) -> Iterator[Case]:
    """Share of a step in which no kernel runs: the GPU waits for the program; bf16."""
    for windows in (4, 16, 64):
        trial = Trial(tokens=windows * course.base_length, autocast=True)
        title = f"{windows} windows of {course.base_length}"
        yield Case(title, partial(idle_share, course, trial), missing=course.no_cuda)


def window_length(course: Course) -> Iterator[Case]:
    """The same number of tokens in windows of different lengths, all full; bf16."""
    for length in (16, 32) if course.miniature else (128, 256, 384, 512):
        trial = Trial(length=length, autocast=True, padded=False)
        yield Case(f"{length} tokens", partial(measure_steps, course, trial))


def optimizer(course: Course) -> Iterator[Case]:
    """AdamW alone, on gradients that lie there already."""
    for title, options in (
        ("fused", {"fused": True}),
        ("foreach", {"foreach": True}),
        ("one by one", {"foreach": False}),
    ):
        yield Case(f"AdamW, {title}", partial(measure_optimizer, course, options))


SECTIONS: dict[str, Callable[[Course], Iterator[Case]]] = {
    "precision": precision,
    "peers": peers,
    "micro-batch": micro_batch,
    "attention": attention,
    "gaps": gaps,
    "window-length": window_length,
    "optimizer": optimizer,
}
"""In the order of what is needed most, should the time not be enough for all."""
