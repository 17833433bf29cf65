"""Training with a mistake in what ranks must do alike; called like ``programs``."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightwork.assembly import training
from lightwork.assembly.ready import Ready, make_ready
from lightwork.cli import launching, main
from lightwork.comm.supervisor import Launch, supervise
from lightwork.data import loader
from lightwork.data.streams import stream_seed
from lightwork.disk import Storage
from lightwork.sync import tree
from lightwork.tasks.extractive.task import ExtractiveTask
from lightwork.train.control import Wishes
from lightwork.train.duties import Duties
from lightwork.train.gradients import Gradients
from lightwork.train.model import Model
from tests.runs.programs import train


def sum_in_rank_order(settings: str, run: str, *overrides: str) -> None:
    """What the ranks hold is added up from the first rank to the last."""
    plant_rank_order()
    train(settings, run, *overrides)


def plant_rank_order() -> None:
    def in_order(_: tree.Node, known: dict[range, Tensor]) -> Tensor:
        first, *others = (known[shares] for shares in sorted(known, key=lambda run: run.start))
        for piece in others:
            first += piece
        return first

    plant(tree, "_sum", in_order)


def accumulate_shares_together(settings: str, run: str, *overrides: str) -> None:
    """All shares of a rank add up in one buffer."""
    plant(tree.ShareSums, "reach", lambda sums, share: None)
    train(settings, run, *overrides)


def draw_by_rank(settings: str, run: str, *overrides: str) -> None:
    """Every rank has random streams of its own."""
    rank = int(os.environ["RANK"])
    plant(loader, "stream_seed", lambda *name: stream_seed(*name, rank))
    train(settings, run, *overrides)


def little_memory(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 has no memory for more than 64 tokens at a time."""
    forward = ExtractiveTask.forward

    def limited(task: ExtractiveTask, model: Any, batch: Any) -> Any:
        if batch["input_ids"].numel() > 64 and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return forward(task, model, batch)

    if os.environ["RANK"] == "1":
        plant(ExtractiveTask, "forward", limited)
    train(settings, run, *overrides)


def little_gpu_memory(settings: str, run: str, *overrides: str) -> None:
    """After the first forward has begun, CUDA gives this process 3 MiB more than it has, once."""
    forward, total = ExtractiveTask.forward, torch.cuda.get_device_properties(0).total_memory

    def limited(task: ExtractiveTask, model: Any, batch: Any) -> Any:
        torch.cuda.empty_cache()
        least = torch.cuda.memory_reserved() + (3 << 20)
        torch.cuda.set_per_process_memory_fraction(least / total)
        return forward(task, model, batch)

    plant(ExtractiveTask, "forward", limited)
    train(settings, run, *overrides)


def infinite_gradient(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 gets an infinite gradient in steps 2 and 5, from one of its micro-batches."""
    compute, loss = Gradients.compute, Model.loss
    now = [0]

    def watched(gradients: Gradients, step: int, *rest: Any) -> Any:
        now[0] = step
        return compute(gradients, step, *rest)

    def poisoned(model: Model, module: Any, piece: Any, batch: Any) -> Tensor:
        found = loss(model, module, piece, batch)
        if now[0] in (2, 5) and piece.index == 0:
            found.register_hook(lambda gradient: gradient * float("inf"))
        return found

    if os.environ["RANK"] == "1":
        plant(Gradients, "compute", watched)
        plant(Model, "loss", poisoned)
    train(settings, run, *overrides)


WEIGHT = "bert.encoder.layer.0.output.dense.weight"


def change_a_weight(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 has the last bit of one weight wrong after step 3."""
    after_step_3(lambda ready: flip(ready.model.module.get_parameter(WEIGHT)))
    train(settings, run, *overrides)


def change_a_moment(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 has the last bit of one second moment wrong after step 3, and all weights right."""
    after_step_3(lambda ready: flip(ready.update.parts()[f"{WEIGHT}/exp_avg_sq"]))
    train(settings, run, *overrides)


def change_a_buffer(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 has one of the positions wrong after step 3."""
    after_step_3(lambda ready: flip(ready.model.module.get_buffer(POSITIONS)))
    train(settings, run, *overrides)


def use_an_operation_without_order(settings: str, run: str, *overrides: str) -> None:
    """The loss passes through an operation that PyTorch has in no deterministic form."""
    whole = ExtractiveTask.loss

    def refused(task: ExtractiveTask, outputs: Any, batch: Any) -> Tensor:
        torch.zeros(1).put_(torch.tensor([0]), torch.ones(1))
        return whole(task, outputs, batch)

    plant(ExtractiveTask, "loss", refused)
    train(settings, run, *overrides)


def full_disk(settings: str, run: str, *overrides: str) -> None:
    """There is no room for a checkpoint of step 4, as is known when step 5 begins."""
    write, wishes = Storage.write, Duties.wishes

    def full(storage: Storage, path: Path, content: bytes) -> None:
        if ".step-000004.part" in path.parts:
            raise OSError(28, "No space left on device")
        write(storage, path, content)

    def written(duties: Duties) -> Wishes:
        for thread in threading.enumerate():
            if thread.name == "lightwork-checkpoint":
                thread.join()
        return wishes(duties)

    plant(Storage, "write", full)
    plant(Duties, "wishes", written)
    train(settings, run, *overrides)


POSITIONS = "bert.embeddings.position_ids"


def launch() -> None:
    """``lightwork`` with the arguments of this process, whose ranks come to differ."""
    rank = "from tests.runs import planted; planted.rank()"

    def start(asked: Launch) -> int:
        return supervise(replace(asked, command=(sys.executable, "-c", rank, *asked.command[3:])))

    plant(launching, "supervise", start)
    main.run()


def rank() -> None:
    """One of the ranks of ``launch``."""
    after_step_3(lambda ready: flip(ready.model.module.get_parameter(WEIGHT)))
    main.run()


def after_step_3(change: Callable[[Ready], None]) -> None:
    """On rank 1, ``change`` what it holds between step 3 and the duties that follow it."""
    if os.environ.get("RANK") != "1":
        return
    made: list[Ready] = []
    after = Duties.after

    def noted(start: Any) -> Ready:
        made.append(make_ready(start))
        return made[0]

    def changed(duties: Duties, step: int, agreed: Wishes) -> bool:
        if step == 3:
            change(made[0])
        return after(duties, step, agreed)

    plant(training, "make_ready", noted)
    plant(Duties, "after", changed)


def flip(tensor: Tensor) -> None:
    tensor.detach().view(torch.uint8).view(-1)[0] ^= 1


def plant(place: Any, name: str, wrong: Callable[..., Any]) -> None:
    """Ranks are processes that end with the test, so nothing needs to be put back."""
    assert hasattr(place, name)
    setattr(place, name, wrong)


def forget_a_row(settings: str, run: str, *overrides: str) -> None:
    """One of the words of every batch is thought to be another."""
    rows = ExtractiveTask.touched_rows

    def forgotten(*given: Any) -> Tensor:
        return rows(*given)[:-1]

    plant(ExtractiveTask, "touched_rows", forgotten)
    train(settings, run, *overrides)


def no_data_for_step_3(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 cannot read its windows in step 3."""
    piece = loader.Loader._piece

    def unreadable(self: loader.Loader, step: int, *rest: Any) -> Any:
        if step == 3 and os.environ["RANK"] == "1":
            raise OSError("the disk is gone")
        return piece(self, step, *rest)

    plant(loader.Loader, "_piece", unreadable)
    train(settings, run, *overrides)


def slow_rank(settings: str, run: str, *overrides: str) -> None:
    """Rank 1 takes a fifth of a second longer for every forward pass."""
    forward = ExtractiveTask.forward

    def slow(task: ExtractiveTask, model: Any, batch: Any) -> Any:
        if os.environ["RANK"] == "1":
            time.sleep(0.2)
        return forward(task, model, batch)

    plant(ExtractiveTask, "forward", slow)
    train(settings, run, *overrides)
