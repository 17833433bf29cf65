"""What activation checkpointing saves and costs: ``python -m benchmarks.recomputing``.

Two models of the same weights in one process, one of which computes its blocks again in backward,
do the same training steps (forward, backward, AdamW) in alternation. Of every step are taken its
seconds and how far memory rose above what was held before it: weights, gradients and the state of
the optimizer are there by then, so the rise is the activations and what is computed with them. On
CPU that is resident memory, on CUDA what PyTorch had allocated. Windows are random and full.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.launching import MODEL
from benchmarks.machine import machine, versions
from benchmarks.memory import forget_peak, memory_mb
from lightwork.tasks.extractive.loss import span_loss
from lightwork.tasks.extractive.model import ScratchShape, build_model, load_tokenizer
from lightwork.tasks.extractive.task import ExtractiveTask
from lightwork.train.blocks import change_blocks
from lightwork.train.optimizer import AdamWOptions, LocalUpdate

ADAMW = AdamWOptions(0.9, 0.999, 1e-8, 0.01, 1.0)
LEARNING_RATE = 3e-5


@dataclass(frozen=True)
class Step:
    """What one step took."""

    seconds: float
    rise_mb: float


class Learner:
    """A model that does the same step again and again."""

    def __init__(self, module: nn.Module, batch: dict[str, Tensor]) -> None:
        self.module = module.train()
        self._batch = batch
        self._device = batch["input_ids"].device
        self.update = LocalUpdate(module, ADAMW)

    def step(self) -> Step:
        """One training step, measured."""
        held_mb = self._begin()
        started_s = time.perf_counter()
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        outputs = self.module(
            input_ids=self._batch["input_ids"], attention_mask=self._batch["attention_mask"]
        )
        loss = span_loss(outputs.start_logits, outputs.end_logits, self._batch)
        (loss / len(self._batch["weight"])).backward()
        self.update.apply(LEARNING_RATE, self.update.measure())
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        seconds = time.perf_counter() - started_s
        return Step(seconds, self._peak_mb() - held_mb)

    def _begin(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            return torch.cuda.memory_allocated(self._device) / 1e6
        forget_peak()
        return memory_mb("VmRSS")

    def _peak_mb(self) -> float:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 1e6
        return memory_mb("VmHWM")


def random_batch(windows: int, tokens: int, vocabulary: int, device: str) -> dict[str, Tensor]:
    """Full windows; answers lie in their second half."""
    draw = torch.Generator().manual_seed(0)
    label = torch.randint(tokens // 2, tokens, (2, windows), generator=draw).sort(dim=0).values
    batch = {
        "input_ids": torch.randint(0, vocabulary, (windows, tokens), generator=draw),
        "attention_mask": torch.ones(windows, tokens, dtype=torch.int64),
        "allowed": torch.ones(windows, tokens, dtype=torch.bool),
        "start": label[0],
        "end": label[1],
        "weight": torch.ones(windows),
    }
    return {name: tensor.to(device) for name, tensor in batch.items()}


def learners(arguments: argparse.Namespace) -> dict[str, Learner]:
    """``kept`` and ``again``: without and with activation checkpointing."""
    vocabulary = len(load_tokenizer(arguments.model))
    torch.manual_seed(0)
    module = build_model(
        arguments.model,
        dropout=None,
        weights=True,
        scratch=ScratchShape(),
        vocabulary=vocabulary,
        attention=arguments.attention,
    ).to(arguments.device)
    again = copy.deepcopy(module)
    change_blocks(ExtractiveTask.blocks(again), recompute=True, compiled=False)
    shape = (arguments.windows, arguments.tokens)
    batch = random_batch(*shape, vocabulary, arguments.device)
    return {"kept": Learner(module, batch), "again": Learner(again, batch)}


def report(pairs: list[dict[str, Step]]) -> None:
    """The ratios of all pairs."""
    memory = [pair["again"].rise_mb / pair["kept"].rise_mb for pair in pairs]
    seconds = [pair["again"].seconds / pair["kept"].seconds for pair in pairs]
    for name, ratios in (("activations' memory", memory), ("time of a step", seconds)):
        print(
            f"{name}, again / kept: median {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} - {max(ratios):.2f})"
        )


def parsed(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--attention", default="auto", choices=["auto", "eager", "sdpa"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=384)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    """Measure alternating pairs and print them with their medians."""
    arguments = parsed(given)
    torch.set_num_threads(arguments.threads)
    print(machine(), versions())
    both = learners(arguments)
    for learner in both.values():  # gradients and the optimizer's state come to be
        learner.step()
    pairs: list[dict[str, Step]] = []
    for number in range(arguments.pairs):
        steps = {name: both[name].step() for name in sorted(both, reverse=number % 2 == 1)}
        pairs.append(steps)
        told = [f"{name} {s.rise_mb:.0f} MB {s.seconds:.2f} s" for name, s in sorted(steps.items())]
        print(f"pair {number + 1}: {', '.join(told)}", flush=True)
    print(f"{arguments.windows} x {arguments.tokens} tokens, {arguments.attention} attention")
    report(pairs)
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
