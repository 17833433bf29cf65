"""A run of Hugging Face's ``Trainer``, whatever its arguments; the contenders differ in those."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForQuestionAnswering,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.adapters.answers import write_answers
from benchmarks.adapters.features import Features
from benchmarks.adapters.spec import Spec
from benchmarks.adapters.steps import StepLog, end_program


class StepTimes(TrainerCallback):
    """Notes the end of every step, and the losses that the Trainer logs."""

    def __init__(self, log: StepLog) -> None:
        self._log = log

    def on_step_end(self, *given: Any, **more: Any) -> None:  # noqa: ARG002 - more is ignored
        """Called with ``(arguments, state, control)`` after the optimizer."""
        self._log.end(given[1].global_step)

    def on_log(self, *given: Any, logs: dict[str, float] | None = None, **more: Any) -> None:  # noqa: ARG002
        """Called every ``logging_steps``; the loss is the mean since the last call."""
        if logs and "loss" in logs:
            self._log.loss(given[1].global_step, float(logs["loss"]))


def shared_arguments(spec: Spec) -> dict[str, Any]:
    """What is the same for every contender: the batch, the schedule and the optimizer's numbers."""
    return {
        "output_dir": f"{spec.out}/trainer",
        "use_cpu": spec.device == "cpu",
        "ddp_backend": _backend(spec) if spec.ranks > 1 else None,
        "per_device_train_batch_size": spec.rank_batch,
        "num_train_epochs": spec.epochs,
        "max_steps": spec.max_steps or -1,
        "learning_rate": spec.learning_rate,
        "weight_decay": spec.weight_decay,
        "max_grad_norm": spec.max_grad_norm,
        "seed": spec.seed,
        "logging_steps": spec.log_every_steps,
        "save_strategy": "steps" if spec.whole else "no",
        "report_to": "none",
    }


def _backend(spec: Spec) -> str:
    return "gloo" if spec.device == "cpu" else "nccl"


def run(
    spec: Spec,
    arguments: TrainingArguments,
    collator: Any,
    train_data: Dataset[Any],
    dev: tuple[Features, Dataset[Any]] | None,
) -> None:
    """Train; with ``dev``, save the model and answer its questions; then the process ends."""
    trainer = _trained(spec, arguments, collator, train_data)
    if dev is not None:
        _answer(spec, trainer, *dev)
    end_program()


def _trained(
    spec: Spec, arguments: TrainingArguments, collator: Any, train_data: Dataset[Any]
) -> Trainer:
    model = AutoModelForQuestionAnswering.from_pretrained(spec.model)
    with StepLog(spec, arguments.process_index) as log:
        trainer = Trainer(
            model=model,
            args=arguments,
            data_collator=collator,
            train_dataset=train_data,
            callbacks=[StepTimes(log)],
        )
        log.facts(threads=torch.get_num_threads(), ranks=arguments.world_size)
        trainer.train()
    return trainer


def _answer(spec: Spec, trainer: Trainer, features: Features, data: Dataset[Any]) -> None:
    trainer.save_model()
    # Grouping by length shuffles the order of an evaluation too, and nothing says which row is
    # whose; read in sequence, the rows come back as the features lie.
    trainer.args.train_sampling_strategy = "sequential"
    logits: Any = trainer.predict(data).predictions
    if trainer.args.process_index == 0:
        write_answers(spec, features, *logits)
