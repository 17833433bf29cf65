"""Extractive question answering: the answer is a piece of the given text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightwork.tasks.extractive.loss import span_loss
from lightwork.tasks.extractive.merge import Answer, merge_candidates, no_answer_score
from lightwork.tasks.extractive.scoring.score import (
    Gold,
    NoAnswer,
    definition,
    score_answers,
    sweep_is_meaningless,
)
from lightwork.tasks.extractive.spans import candidate_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from lightwork.tasks.contract import Batch, Candidate, Rows


@dataclass(frozen=True)
class Answering:
    """How answers are chosen and scored."""

    n_best: int
    """Answers that are kept for every question."""
    max_answer_tokens: int
    no_answer: bool
    """Whether "no answer" is one, since the model learned it."""
    no_answer_threshold: float | None = None
    """By how much "no answer" must exceed the best text for it to come first, in logits; None:
    scores are given with what suits the scored questions best, and everything else with 0.
    """
    language: str = "auto"
    """Whose definition scores them; see ``scoring``."""


OFFICIAL_KEYS = ("text", "probability", "start_logit", "end_logit")
"""What an entry of an official n-best file holds."""


class ExtractiveTask:
    """Implements ``tasks.contract.Task`` on the columns that ``windows.build_windows`` makes.

    It holds plain numbers only, so its methods may be called from several threads at once.
    """

    name = "extractive"

    def __init__(
        self, *, pad_id: int, pad_left: bool, uses_type_ids: bool, answering: Answering
    ) -> None:
        self.pad_id = pad_id
        self.pad_left = pad_left
        self.uses_type_ids = uses_type_ids
        self.answering = answering

    @classmethod
    def with_tokenizer(cls, tokenizer: Any, answering: Answering) -> ExtractiveTask:
        """The task for windows that were made with this tokenizer."""
        return cls(
            pad_id=tokenizer.pad_token_id,
            pad_left=tokenizer.padding_side == "left",
            uses_type_ids="token_type_ids" in tokenizer.model_input_names,
            answering=answering,
        )

    def collate(self, rows: Rows, windows: NDArray[np.integer[Any]], padded_tokens: int) -> Batch:
        """``input_ids``, ``attention_mask``, ``allowed`` (and ``token_type_ids``) are
        ``[windows, padded_tokens]``; ``start``, ``end``, ``weight``, ``example``, ``window``,
        ``cls``, ``context_first`` and ``context_last`` are ``[windows]``.

        All positions count the padded window. Integers are int64, ``weight`` is float32 and
        ``allowed`` bool: context tokens and the classification token.
        """
        shape = (len(windows), padded_tokens)
        tokens = rows.column("tokens")[windows].astype(np.int64)
        assert not len(tokens) or tokens.max() <= padded_tokens, "a window longer than its batch"
        shift = padded_tokens - tokens if self.pad_left else np.zeros_like(tokens)
        names = ("start", "end", "cls", "context_first", "context_last")
        batch = {name: rows.column(name)[windows] + shift for name in names}
        position = np.arange(padded_tokens)
        begin, end = shift[:, None], (shift + tokens)[:, None]
        batch["attention_mask"] = ((position >= begin) & (position < end)).astype(np.int64)
        allowed = position >= batch["context_first"][:, None]
        allowed &= position < batch["context_last"][:, None]
        allowed[np.arange(len(windows)), batch["cls"]] = True
        batch["allowed"] = allowed
        batch["input_ids"] = _padded(rows, "input_ids", windows, shift, np.full(shape, self.pad_id))
        if self.uses_type_ids:
            types = np.zeros(shape, dtype=np.int64)
            batch["token_type_ids"] = _padded(rows, "type_ids", windows, shift, types)
        batch["weight"] = rows.column("weight")[windows].astype(np.float32)
        batch["example"] = rows.column("example")[windows].astype(np.int64)
        batch["window"] = np.array(windows, dtype=np.int64)
        return {name: torch.from_numpy(values) for name, values in batch.items()}

    def touched_rows(self, rows: Rows, windows: NDArray[np.integer]) -> Tensor:
        """The words of these windows, ``[k]``, each once, in order: rows of the embedding table."""
        words = [rows.row("input_ids", int(window)) for window in windows]
        read = np.unique(np.concatenate([*words, [self.pad_id]]))
        return torch.from_numpy(read.astype(np.int64))

    def forward(self, model: nn.Module, batch: Batch) -> Any:
        """The model's own outputs, with ``start_logits`` and ``end_logits``."""
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        if self.uses_type_ids:
            inputs["token_type_ids"] = batch["token_type_ids"]
        return model(**inputs)

    def loss(self, outputs: Any, batch: Batch) -> Tensor:
        """The weighted sum over windows of the span loss."""
        return span_loss(outputs.start_logits, outputs.end_logits, batch)

    @staticmethod
    def blocks(model: nn.Module) -> list[nn.Module]:
        """The layers of the encoder, then those of the decoder where there is one.

        A layer that is used several times, as in ALBERT, is there once.
        """
        backbone = getattr(model, "base_model", model)
        halves = [getattr(backbone, name, None) for name in ("encoder", "decoder")]
        stacks = [half for half in halves if half is not None] or [backbone]
        return [layer for stack in stacks for layer in _layers(stack)]

    def candidates(self, outputs: Any, batch: Batch) -> list[Candidate]:
        """The ``n_best`` spans of every window, as ``spans.candidate_rows`` gives them."""
        with torch.no_grad():
            return candidate_rows(
                outputs.start_logits,
                outputs.end_logits,
                batch,
                n_best=self.answering.n_best,
                max_answer_tokens=self.answering.max_answer_tokens,
                no_answer=self.answering.no_answer,
            )

    def merge(self, candidates: Iterable[Candidate], rows: Rows) -> dict[str, list[Answer]]:
        """See ``merge.merge_candidates``; every example of the store has an entry."""
        threshold = self.answering.no_answer_threshold or 0.0
        return merge_candidates(candidates, rows, self.answering.n_best, threshold)

    def score(
        self, predictions: dict[str, list[dict[str, Any]]], rows: Rows
    ) -> dict[str, float | int]:
        """The scores in percent and counts of ``scoring.score_answers``.

        Where "no answer" is one, ``no_answer_threshold`` is the threshold of these scores, in
        logits. The best thresholds are probabilities, as in ``na_prob.json``.
        """
        golds, language = _golds(rows), self.answering.language
        texts = _best_texts(predictions)
        if not self.answering.no_answer:
            return score_answers(texts, golds, language=language)
        no_answer, threshold = _no_answers(predictions), self.answering.no_answer_threshold
        # Without a question that has no answer, a threshold could not be tuned.
        if all(gold.answers for gold in golds.values()):
            scores = score_answers(texts, golds, language=language)
            return {**scores, "no_answer_threshold": threshold or 0.0}
        scores = score_answers(texts, golds, language=language, no_answer=no_answer)
        if threshold is None and scores["best_f1"] > _never(scores):
            threshold = scores["best_f1_thresh"]
            chosen = {
                example_id: "" if item.score > threshold else item.text
                for example_id, item in no_answer.items()
            }
            scores |= score_answers(chosen, golds, language=language)
        for best in ("best_exact", "best_f1"):
            if scores[best] > _never(scores):  # otherwise the official 0: never an answer
                scores[f"{best}_thresh"] = _probability(scores[f"{best}_thresh"])
        return {**scores, "no_answer_threshold": threshold or 0.0}

    def remark(
        self, predictions: dict[str, list[dict[str, Any]]], scores: dict[str, float | int]
    ) -> str:
        """Said where a threshold means nothing, or the model is no better than one that never
        answers.
        """
        if "best_f1" in scores and sweep_is_meaningless(_no_answers(predictions)):
            return 'all questions have the same score for "no answer": no threshold could be tuned'
        never = _never(scores)
        if never and max(scores["f1"], scores.get("best_f1", 0.0)) <= never:
            return f"no better than a model that never answers, which scores {never:.2f}"
        return ""

    def scored_as(self, rows: Rows) -> str:
        """By which definition :meth:`score` judges the answers to these questions, in words."""
        return str(definition(_golds(rows), self.answering.language))

    def example_ids(self, rows: Rows, windows: Sequence[int]) -> list[str]:
        """The ids of the examples of these windows, each once, in order."""
        numbers = dict.fromkeys(int(rows.column("example")[window]) for window in windows)
        return [rows.text("example_id", number) for number in numbers]

    def files(self, predictions: dict[str, list[Answer]]) -> dict[str, dict[str, Any]]:
        """File name -> content: predictions, n-best lists and, where "no answer" is one, how
        probable it is beside the best text alone, and that text; all in the official shapes.
        """
        nbest = {
            example_id: [{key: answer[key] for key in OFFICIAL_KEYS} for answer in answers]
            for example_id, answers in predictions.items()
        }
        found: dict[str, dict[str, Any]] = {
            "predictions.json": _best_texts(predictions),
            "nbest.json": nbest,
        }
        if self.answering.no_answer:
            no_answer = _no_answers(predictions)
            found["na_prob.json"] = {key: _probability(v.score) for key, v in no_answer.items()}
            found["predictions_always.json"] = {key: v.text for key, v in no_answer.items()}
        return found


def _never(scores: dict[str, float | int]) -> float:
    """What a model that never answers scores on these questions, as the sweep begins."""
    return 100.0 * float(scores.get("NoAns_total", 0)) / max(scores["total"], 1)


def _no_answers(predictions: dict[str, list[dict[str, Any]]]) -> dict[str, NoAnswer]:
    return {
        example_id: NoAnswer(*no_answer_score(answers))
        for example_id, answers in predictions.items()
    }


def _golds(rows: Rows) -> dict[str, Gold]:
    """Example id -> its gold answers and context; every context is decoded once."""
    numbers = rows.column("example_context").tolist()
    contexts = {number: rows.text("context", number) for number in dict.fromkeys(numbers)}
    return {
        rows.text("example_id", index): Gold(
            tuple(json.loads(rows.text("example_answers", index))), contexts[number]
        )
        for index, number in enumerate(numbers)
    }


def _probability(score: float) -> float:
    """Of "no answer" where the best text is the only other choice, in logits."""
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0


def _layers(stack: nn.Module) -> list[nn.Module]:
    """The list of modules that holds the most parameters; Funnel keeps lists in it."""
    lists: list[nn.Module] = [
        module for module in stack.modules() if isinstance(module, torch.nn.ModuleList)
    ]
    largest: Any = max(lists, key=_parameters, default=())
    found: list[nn.Module] = list(largest)
    while found and isinstance(found[0], torch.nn.ModuleList):
        found = [layer for group in found for layer in group.children()]
    return list(dict.fromkeys(found))


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _best_texts(predictions: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    return {example_id: answers[0]["text"] for example_id, answers in predictions.items()}


def _padded(
    rows: Rows,
    name: str,
    windows: NDArray[np.integer[Any]],
    shift: NDArray[np.int64],
    out: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Write each window's row of a ragged column into ``out``, from place ``shift`` on."""
    for line, (window, first) in enumerate(zip(windows.tolist(), shift.tolist(), strict=True)):
        values = rows.row(name, window)
        out[line, first : first + len(values)] = values
    return out
