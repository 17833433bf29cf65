"""``lightwork answer``: a model that has learned is asked, in one process on one device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lightwork.assembly.learned import best_of
from lightwork.comm.world import bind_device, read_world, threads_per_rank, visible_gpus
from lightwork.data.plan import MicroBatch, evaluation_batches, round_to_on
from lightwork.data.store import Columns
from lightwork.errors import RunError
from lightwork.report.card import EXPORTED
from lightwork.settings import load_settings, locate
from lightwork.settings.learning import EvaluateSettings
from lightwork.settings.running import LaunchSettings
from lightwork.tasks.extractive.examples import Example, Examples
from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    check_length,
    load_tokenizer,
    longest_input,
)
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.tasks.extractive.windows import WindowOptions, build_windows, check_options
from lightwork.train.evaluate import decode
from lightwork.train.model import Model

Device = Literal["auto", "cpu", "cuda"]
Progress = Callable[[int, int], None]

MAX_LENGTH, STRIDE, MAX_QUESTION_LENGTH = 384, 128, 64
"""Tokens, where a model folder does not say; less where the model takes no more."""


@dataclass(frozen=True)
class Found:
    """An answer: ``context[start:end] == text``, in characters; "" and -1, -1 is no answer."""

    text: str
    probability: float
    """Its share among the best answers of the question, as many as an evaluation keeps."""
    start: int
    end: int


class Answerer:
    """A model ready to be asked. It answers as ``lightwork evaluate`` does, to the same digits."""

    def __init__(
        self,
        model: Model,
        tokenizer: Any,
        windows: WindowOptions,
        *,
        batch_tokens: int,
    ) -> None:
        """``batch_tokens``: of one forward, padded."""
        self._model = model
        self._tokenizer = tokenizer
        self._windows = windows
        self._batch_tokens = batch_tokens

    def answer(self, context: str, question: str, top: int = 3) -> list[Found]:
        """The ``top`` best answers to one question, best first: at least one.

        Nothing is found in a blank context; a blank question is answered from the context alone.
        """
        alone = Example("", question, context, (), False)
        return self.answer_all(Examples([alone], {}, {}), top)[""]

    def answer_all(
        self, examples: Examples, top: int, progress: Progress | None = None
    ) -> dict[str, list[Found]]:
        """Per example id, in order, what :meth:`answer` gives. Gold answers are not looked at.

        ``progress(done, total)`` counts windows.
        """
        windows = build_windows(examples, self._tokenizer, self._windows, training=False)
        rows = Columns(windows.columns)
        round_to = round_to_on(self._model.device.type)
        batches = evaluation_batches(rows.column("tokens"), self._batch_tokens, round_to)
        candidates = decode(self._model, rows, _counted(batches, len(rows), progress))
        merged = self._model.task.merge(candidates, rows)
        return {
            example_id: [
                Found(found["text"], found["probability"], found["start"], found["end"])
                for found in answers[:top]
            ]
            for example_id, answers in merged.items()
        }


def _counted(
    batches: Iterable[MicroBatch], total: int, progress: Progress | None
) -> Iterator[MicroBatch]:
    done = 0
    for batch in batches:
        if progress is not None:
            progress(done, total)
        yield batch
        done += len(batch.windows)


class _Exported(BaseModel):
    """What ``lightwork.json`` says; what it does not say is as in a folder without one.

    Other names in it are for people.
    """

    model_config = ConfigDict(strict=True)

    format: Literal[1] = 1
    impossible: bool = False
    no_answer_threshold: float = Field(default=0.0, allow_inf_nan=False)
    max_length: int | None = Field(default=None, ge=1)
    stride: int | None = Field(default=None, ge=0)
    max_question_length: int | None = Field(default=None, ge=1)
    max_answer_tokens: int = Field(default=EvaluateSettings().max_answer_tokens, ge=1)
    n_best: int = Field(default=EvaluateSettings().n_best, ge=1)


@dataclass(frozen=True)
class _Asked:
    """How the model in a folder is to be asked."""

    folder: Path
    said: _Exported
    batch_tokens: int
    launch: LaunchSettings


def open_answerer(folder: Path, device: Device | None = None, top: int = 1) -> Answerer:
    """The best model of a run, or the model in any Hugging Face folder, ready to be asked.

    Args:
        folder: a run folder, or one with config.json, safetensors and tokenizer.json.
        device: where to compute; None: as in the settings of the run, else a GPU if there is one.
        top: how many answers will be wanted at most.

    Raises:
        LightworkError: nothing in the folder can be asked, or there is no such device.
    """
    asked = _of_run(folder) if locate(folder)[1] is not None else _of_model(folder)
    # One process by itself, whatever launcher's variables it has inherited.
    world = read_world({}, visible_gpus(), device or asked.launch.device)
    threads = asked.launch.threads
    bind_device(world, threads_per_rank(world) if threads == "auto" else threads)
    source = str(asked.folder)
    tokenizer = load_tokenizer(source)
    module = build_model(
        source, dropout=None, weights=True, scratch=ScratchShape(), vocabulary=len(tokenizer)
    )
    windows = _windows(asked.said, module, tokenizer)
    check_length(module, windows.max_length)
    check_options(tokenizer, windows)
    answering = Answering(
        n_best=max(asked.said.n_best, top),
        max_answer_tokens=asked.said.max_answer_tokens,
        no_answer=asked.said.impossible,
        no_answer_threshold=asked.said.no_answer_threshold,
    )
    task = ExtractiveTask.with_tokenizer(tokenizer, answering)
    place = torch.device(world.device)
    module.to(place)
    return Answerer(
        Model(module, trained=module, task=task, device=place, example_ids=lambda _windows: []),
        tokenizer,
        windows,
        batch_tokens=asked.batch_tokens,
    )


def _of_run(run: Path) -> _Asked:
    settings = load_settings(locate(run)[0])
    learned = best_of(run)
    data, evaluate = settings.data, settings.evaluate
    said = _Exported(
        impossible=learned.impossible,
        no_answer_threshold=learned.no_answer_threshold,
        max_length=data.max_length,
        stride=data.stride,
        max_question_length=data.max_question_length,
        max_answer_tokens=evaluate.max_answer_tokens,
        n_best=evaluate.n_best,
    )
    return _Asked(learned.model, said, evaluate.batch_tokens, settings.launch)


def _of_model(folder: Path) -> _Asked:
    _check_head(folder)
    path = folder / EXPORTED
    try:
        said = _Exported.model_validate_json(path.read_bytes()) if path.is_file() else _Exported()
        return _Asked(folder, said, EvaluateSettings().batch_tokens, LaunchSettings())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise RunError(
            f"{path.absolute()} cannot be used: {name}{': ' if name else ''}{first['msg']}; "
            "export the model again"
        ) from None


def _check_head(folder: Path) -> None:
    """Refuse a model that was never trained to answer: the library would draw a head at random."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        kinds = [str(name) for name in config.get("architectures") or []]
    except (OSError, ValueError, AttributeError, TypeError):
        return  # the library says what is wrong with it
    if not any("ForQuestionAnswering" in kind for kind in kinds):
        kind = ", ".join(kinds) or "model of no named kind"
        raise RunError(
            f"{folder.absolute()} holds a {kind}, which has no answer head yet; train it first: "
            f"lightwork train SETTINGS model.source={folder}"
        )


def _windows(said: _Exported, module: torch.nn.Module, tokenizer: Any) -> WindowOptions:
    """The windows the model was trained with, or such as fit its longest input."""
    longest = min(MAX_LENGTH, longest_input(module) or MAX_LENGTH, tokenizer.model_max_length)
    max_length = said.max_length or longest
    stride = min(STRIDE, max_length // 3) if said.stride is None else said.stride
    question = said.max_question_length or min(MAX_QUESTION_LENGTH, max_length // 4)
    return WindowOptions(max_length, stride, question)
