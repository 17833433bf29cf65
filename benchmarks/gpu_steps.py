"""Training steps for ``benchmarks.gpu``, and how they are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForQuestionAnswering, BertConfig

from lightwork.tasks.extractive.loss import span_loss

WARMUP_STEPS = 3
BLOCKS = 3
MEBIBYTE = 1 << 20
NO_KERNEL = ("Memcpy", "Memset", "ProfilerStep", "Optimizer.", "## ")
"""How events on the device's time line begin that are copies or labels, not kernels."""


@dataclass(frozen=True)
class Course:
    """Where and with what everything is measured."""

    device: torch.device
    source: str | None
    """Folder of a model; None: random weights."""
    miniature: bool
    case_s: float
    """Seconds for the steps of one case."""
    left_s: Callable[[], float]
    """Seconds until the time is up."""

    @property
    def no_cuda(self) -> str:
        """Why something that needs CUDA is missing; empty where there is CUDA."""
        return "" if self.device.type == "cuda" else "no CUDA"

    @property
    def model_name(self) -> str:
        """For people."""
        return self.source or ("a tiny BERT" if self.miniature else "BERT-base, random weights")

    @property
    def base_length(self) -> int:
        """Tokens of a window where nothing else is said."""
        return 32 if self.miniature else 256

    @property
    def base_tokens(self) -> int:
        """Padded tokens of a step where nothing else is said."""
        return 64 if self.miniature else 16384

    def config(self) -> Any:
        """Of the model; position embeddings for the longest window that is tried."""
        if self.source is not None:
            return AutoConfig.from_pretrained(self.source)
        if self.miniature:
            return BertConfig(
                vocab_size=200,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=64,
            )
        return BertConfig()

    def model(self, attention: str) -> nn.Module:
        """In training mode on the device, fp32; weights do not change how fast it is."""
        torch.manual_seed(0)
        with self.device:  # random numbers for a hundred million weights take long elsewhere
            model = AutoModelForQuestionAnswering.from_config(
                self.config(), attn_implementation=attention
            )
        module: nn.Module = model.float().to(self.device)
        return module.train()


@dataclass(frozen=True)
class Trial:
    """How a step is computed."""

    attention: str = "sdpa"
    autocast: bool = False
    """bfloat16 where autocast allows it."""
    matmul: str = "highest"
    """``torch.set_float32_matmul_precision``."""
    tokens: int | None = None
    """Padded tokens of the step; None: those of the course."""
    length: int | None = None
    """Tokens of a window; None: that of the course."""
    padded: bool = True
    """Windows fill half to all of their length; otherwise all are full and there is no mask."""


def make_batch(course: Course, trial: Trial) -> dict[str, Tensor]:
    """Random windows as the model takes them, with what the loss needs."""
    length = trial.length or course.base_length
    windows = max((trial.tokens or course.base_tokens) // length, 1)
    draw = torch.Generator().manual_seed(0)
    vocabulary = course.config().vocab_size
    shape = (windows, length)
    real = torch.full((windows,), length)
    if trial.padded:
        real = torch.randint(length // 2, length + 1, (windows,), generator=draw)
    inside = torch.arange(length) < real[:, None]
    label = torch.randint(0, length // 2, (2, windows), generator=draw)
    batch = {
        "input_ids": torch.randint(0, vocabulary, shape, generator=draw),
        "allowed": inside,
        "start": label[0],
        "end": label[1],
        "weight": torch.ones(windows),
    }
    if trial.padded:
        batch["attention_mask"] = inside.long()
    return {name: tensor.to(course.device) for name, tensor in batch.items()}


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Products of fp32 matrices: ``highest`` in fp32, ``high`` in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def make_step(course: Course, trial: Trial) -> tuple[Callable[[], None], int, int]:
    """One training step, its windows and its padded tokens."""
    model = course.model(trial.attention)
    batch = make_batch(course, trial)
    windows, length = batch["input_ids"].shape
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        with torch.autocast(course.device.type, torch.bfloat16, enabled=trial.autocast):
            outputs = model(**inputs)
        loss = span_loss(outputs.start_logits, outputs.end_logits, batch)
        (loss / windows).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad()

    return step, windows, windows * length


def measure_steps(course: Course, trial: Trial) -> dict[str, float]:
    """Rates and peak memory of training steps."""
    _forget_peak(course)
    with matmul_precision(trial.matmul):
        step, windows, tokens = make_step(course, trial)
        step_s = seconds_per_call(course, step)
    figures = {
        "windows_per_s": windows / step_s,
        "tokens_per_s": tokens / step_s,
        "step_ms": 1000 * step_s,
    }
    if course.device.type == "cuda":
        figures["peak_mib"] = torch.cuda.max_memory_allocated() / MEBIBYTE
    return figures


def _forget_peak(course: Course) -> None:
    if course.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measure_optimizer(course: Course, options: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of one AdamW step."""
    parameters = list(course.model("sdpa").parameters())
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 1e-3)
    adamw = torch.optim.AdamW(parameters, lr=1e-5, **options)
    return {"step_ms": 1000 * seconds_per_call(course, lambda: adamw.step() and None)}


def seconds_per_call(course: Course, call: Callable[[], None]) -> float:
    """Median over three blocks of calls; the device is waited for around each block only."""
    _wait(course)
    for _ in range(WARMUP_STEPS):
        call()
    _wait(course)
    once_s = _block(course, call, 1)
    calls = max(1, int(course.case_s / BLOCKS / max(once_s, 1e-6)))
    return statistics.median(_block(course, call, calls) / calls for _ in range(BLOCKS))


def _block(course: Course, call: Callable[[], None], calls: int) -> float:
    started_s = time.perf_counter()
    for _ in range(calls):
        call()
    _wait(course)
    return time.perf_counter() - started_s


def _wait(course: Course) -> None:
    if course.device.type == "cuda":
        torch.cuda.synchronize()


def idle_share(course: Course, trial: Trial) -> dict[str, float]:
    """Percent of the time between the first and the last kernel of some steps without a kernel."""
    _forget_peak(course)
    step, windows, tokens = make_step(course, trial)
    step_s = seconds_per_call(course, step)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(5):
            step()
        _wait(course)
    spans = [
        (event.time_range.start, event.time_range.end)
        for event in profiled.events() or []
        if event.device_type.name == "CUDA" and not _is_label(event)
    ]
    return {
        "windows_per_s": windows / step_s,
        "tokens_per_s": tokens / step_s,
        "step_ms": 1000 * step_s,
        "idle_percent": 100 * (1 - busy_share(spans)),
    }


def _is_label(event: Any) -> bool:
    return event.name.startswith(NO_KERNEL) or getattr(event, "is_user_annotation", False)


def busy_share(spans: Sequence[tuple[float, float]]) -> float:
    """Part of the time from the first start to the last end that some span covers."""
    if not spans:
        raise RuntimeError("the profiler saw no kernel")
    ordered = sorted(spans)
    first, covered_until, covered = ordered[0][0], ordered[0][0], 0.0
    for start, end in ordered:
        covered += max(0.0, end - max(start, covered_until))
        covered_until = max(covered_until, end)
    return covered / (covered_until - first)
