"""Evaluation over all ranks: every window exactly once, decoded while the next forward runs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from lightwork.comm.group import Group
from lightwork.comm.phases import enter
from lightwork.data.plan import MicroBatch, evaluation_batches, round_to_on
from lightwork.data.store import Store
from lightwork.errors import StepError
from lightwork.telemetry.lines import HEADLINE
from lightwork.train.memory import is_out_of_memory
from lightwork.train.model import Model

if TYPE_CHECKING:
    from lightwork.tasks.contract import Batch, Candidate, Rows, Task

log = logging.getLogger("lightwork")

AMISS = ("missing", "unknown")
"""Scores that count questions without a prediction, and predictions without a question."""

Predictions = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Evaluation:
    """The result, on every rank alike."""

    scores: dict[str, float | int]
    predictions: Predictions | None
    """Per example its best answers, in input order; on rank 0 only."""
    remark: str = ""
    """What should be known before the scores are believed; on rank 0 only."""

    def __str__(self) -> str:
        """The scores in one line, two decimals; counts of what is amiss only where there is any."""
        amiss = {name for name in AMISS if self.scores.get(name)}
        shown = {name: self.scores[name] for name in self.scores if name in {*HEADLINE, *amiss}}
        return "  ".join(
            f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in shown.items()
        )


def evaluate(
    group: Group, model: Model, store: Store, batch_tokens: int, batches_per_rank: int | None = None
) -> Evaluation:
    """Score ``model.module`` on every example of ``store``.

    ``batches_per_rank``: only so many of the largest batches, to see whether it works at all.

    The batches are cut once, whatever the number of ranks, and dealt whole, so each window is
    computed alike on one rank or ten. Only the n best candidates of each window travel, as JSON.

    Raises:
        StepError: on all ranks together, when any rank failed.
    """
    round_to = round_to_on(model.device.type)
    batches = evaluation_batches(store.column("tokens"), batch_tokens, round_to)
    batches = batches[group.rank :: group.size][:batches_per_rank]
    candidates: list[Candidate] = []
    problem = None
    try:
        candidates = decode(model, store, batches)
    except Exception as error:  # noqa: BLE001 - told to all ranks, who stop together
        problem = f"{type(error).__name__}: {error}"
        if is_out_of_memory(error):
            problem = f"out of memory with batches of {batch_tokens} tokens (evaluate.batch_tokens)"
        log.error("evaluation failed on this rank\n%s", traceback.format_exc())
    told = group.gather_json({"problem": problem, "candidates": candidates})
    problems = [f"rank {r}: {t['problem']}" for r, t in enumerate(told) if t["problem"]]
    if problems:
        raise StepError("the evaluation failed. " + "; ".join(problems))
    return _scored_by_one(group, model.task, store, [row for t in told for row in t["candidates"]])


def _scored_by_one(
    group: Group, task: Task, store: Store, candidates: list[Candidate]
) -> Evaluation:
    """Rank 0 merges and scores what all found; a failure there is everybody's."""
    result, problem = None, None
    if group.rank == 0:
        enter("score")
        try:
            result = _scored(task, store, candidates)
        except Exception as error:  # noqa: BLE001 - told to all ranks, who stop together
            problem = f"{type(error).__name__}: {error}"
            log.error("scoring failed\n%s", traceback.format_exc())
    scores, problem = group.gather_json([result and result.scores, problem])[0]
    if problem:
        raise StepError(f"the scores could not be computed. {problem}")
    return result or Evaluation(scores, None)


def _scored(task: Task, store: Store, candidates: list[Candidate]) -> Evaluation:
    predictions = task.merge(candidates, store)
    scores = task.score(predictions, store)
    return Evaluation(scores, predictions, task.remark(predictions, scores))


def decode(model: Model, rows: Rows, batches: Iterable[MicroBatch]) -> list[Candidate]:
    """The candidates of all windows in ``batches``, on this rank alone.

    Forward in this thread, decode in another: the one computes while the other sorts.
    """
    futures: list[Future[list[Candidate]]] = []
    with evaluating(model), ThreadPoolExecutor(1, "lightwork-decode") as decoder:
        for micro in batches:
            enter("evaluate")
            batch = model.task.collate(rows, micro.windows, micro.padded_tokens)
            outputs = model.task.forward(model.module, model.on_device(batch))
            futures.append(decoder.submit(_decode, model.task.candidates, outputs, batch))
        return [row for future in futures for row in future.result()]


def _decode(
    candidates: Callable[[Any, Batch], list[Candidate]], outputs: Any, batch: Batch
) -> list[Candidate]:
    with torch.inference_mode():
        return candidates(outputs, batch)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """No gradients and no dropout inside; the model is back in its mode afterwards."""
    training = model.module.training
    model.module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.module.train(training)
