"""The settings of what is learned and how: data, model, training, evaluation."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from lightwork.settings.kinds import (
    AtLeastOne,
    Decay,
    Dropout,
    Language,
    Location,
    Locations,
    MicroBatch,
    Number,
    Positive,
    Section,
    Seed,
    Shares,
    Text,
    Whole,
    identity,
    machine,
    reporting,
)

REQUIRED: Any = ...
SPECIAL_TOKENS = 3
"""Tokens of a window that are neither question nor context, as BERT lays it out."""


class DataSettings(Section):
    """What is read, and how it is cut into windows."""

    train: Locations = identity(
        REQUIRED, "Training questions: one file or a list of files", min_length=1
    )
    dev: Locations | None = reporting(
        None, "Held-out questions scored during training: one file or a list of files"
    )
    on_mismatch: Literal["stop", "repair", "drop"] = identity(
        "stop", "What happens to training answers that are not at their answer_start"
    )
    language: Language = reporting(
        "auto", "By which definition answers are scored; auto: that of the held-out questions"
    )
    max_length: Whole = identity(384, "Tokens of a window, all included", ge=16, le=8192)
    stride: Whole = identity(128, "Context tokens that neighbouring windows share", ge=0)
    max_question_length: Whole = identity(64, "Tokens after which a question is cut", ge=1)
    limit: AtLeastOne | None = identity(None, "Use only the first so many training questions")
    cache: Location = machine("~/.cache/lightwork", "Folder of the tokenised stores")

    @model_validator(mode="after")
    def _window_has_room(self) -> DataSettings:
        room = self.max_length - self.max_question_length - SPECIAL_TOKENS
        if room < 1:
            raise ValueError(
                f"data.max_length is {self.max_length}, but must be at least "
                f"{self.max_question_length + SPECIAL_TOKENS + 1}: data.max_question_length "
                f"{self.max_question_length}, {SPECIAL_TOKENS} special tokens and 1 of the context"
            )
        if self.stride >= room:
            raise ValueError(
                f"data.stride is {self.stride}, but must be below {room}: data.max_length "
                f"{self.max_length} less data.max_question_length {self.max_question_length} and "
                f"{SPECIAL_TOKENS} special tokens; otherwise no window moves forward"
            )
        return self


class ModelSettings(Section):
    """Which model learns."""

    source: Text = identity(
        REQUIRED, "A hub name, a folder, package:NAME/folder of an installed package, or scratch"
    )
    dropout: Dropout | None = identity(
        None, "Dropout probability; null: as in the model's own config"
    )
    freeze: Literal["none", "embeddings", "encoder"] = identity(
        "none", "What keeps its weights; encoder: all but the answer head"
    )
    attention: Literal["auto", "eager", "sdpa"] = machine(
        "auto", "How attention is computed, to rounding the same; auto: as transformers chooses"
    )
    scratch_layers: Whole = identity(2, "Layers of a scratch model", ge=1, le=96)
    scratch_width: Whole = identity(128, "Width of a scratch model", ge=8, le=16384)
    scratch_heads: Whole = identity(2, "Attention heads of a scratch model", ge=1, le=256)
    scratch_vocabulary: Whole = identity(
        8000, "Word pieces of a scratch model's tokenizer", ge=100, le=1_000_000
    )

    @model_validator(mode="after")
    def _heads_divide_width(self) -> ModelSettings:
        if self.scratch_width % self.scratch_heads:
            raise ValueError(
                f"model.scratch_width {self.scratch_width} cannot be divided among "
                f"model.scratch_heads {self.scratch_heads}: it must be a multiple of it"
            )
        return self


class TrainSettings(Section):
    """How the model learns."""

    batch_size: Whole = identity(32, "Windows behind one update, over all ranks", ge=1, le=1 << 20)
    shares: Literal["auto"] | Shares = identity(
        "auto", "Fixed parts of every batch; auto: as many as there are ranks at the first start"
    )
    micro_batch_tokens: Literal["auto"] | MicroBatch = machine(
        8192, "Padded tokens of one forward and backward; auto: as many as memory holds"
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = identity(
        "auto", "What forward and backward compute in; auto: bf16 on GPUs that have it, else fp32"
    )
    on_nonfinite: Literal["stop", "skip"] = machine(
        "stop", "What happens at a loss or gradient that is not a finite number; skip: no update"
    )
    max_skipped_steps: Whole = machine(
        10, "Steps of a run that may be skipped before it stops after all", ge=1
    )
    activation_checkpointing: bool = machine(
        False, "Keep only what goes into a block, compute the rest again in backward; less memory"
    )
    compile: bool = machine(
        False, "Compile the blocks of the model; the first steps take minutes; not with tree"
    )
    epochs: Whole = identity(2, "Passes over the training windows", ge=1)
    max_steps: AtLeastOne | None = identity(None, "Stop after so many updates; null: epochs decide")
    max_minutes: Positive | None = machine(
        None, "Save and end after so many minutes; the same command goes on; null: no limit"
    )
    learning_rate: Number = identity(3e-5, "Highest learning rate", gt=0, le=1)
    reference_batch_size: AtLeastOne | None = identity(
        None, "The batch that train.learning_rate was chosen for; for train.lr_rule"
    )
    lr_rule: Literal["none", "sqrt", "linear"] = identity(
        "none", "How the rate follows batch_size / reference_batch_size; ranks never count"
    )
    schedule: Literal["linear", "cosine", "constant"] = identity(
        "linear", "Course of the learning rate after the warm-up"
    )
    warmup_ratio: Number = identity(0.06, "Part of all steps in which the rate rises", ge=0, le=1)
    weight_decay: Number = identity(0.01, "Weight decay; biases and norms have none", ge=0, le=1)
    adam_beta1: Decay = identity(0.9, "Decay of AdamW's mean of gradients")
    adam_beta2: Decay = identity(0.999, "Decay of AdamW's mean of squared gradients")
    adam_epsilon: Number = identity(1e-8, "Added to AdamW's denominator", gt=0, le=1)
    max_grad_norm: Positive | None = identity(
        1.0, "Gradients of a larger global norm are scaled down to it; null: never"
    )
    seed: Seed = identity(
        42, "Start of every random number; random: drawn when a run begins, and kept with it"
    )
    patience: AtLeastOne | None = identity(
        None, "Stop after so many evaluations without a better score; null: never"
    )
    evaluate_every_steps: AtLeastOne | None = reporting(
        None, "Score data.dev every so many steps; null: after every epoch"
    )
    deterministic: bool = machine(
        False, "Only kernels that give the same bits every time, no TF32; slower on cuda"
    )
    check_replicas_every_steps: AtLeastOne | None = machine(
        100, "Steps between two checks that all ranks hold the same; null: only before checkpoints"
    )
    log_every_steps: Whole = reporting(10, "Steps between two lines of progress", ge=1)

    @model_validator(mode="after")
    def _rule_has_a_reference(self) -> TrainSettings:
        if (self.lr_rule == "none") != (self.reference_batch_size is None):
            raise ValueError(
                f"train.lr_rule is {self.lr_rule} and train.reference_batch_size is "
                f"{self.reference_batch_size or 'null'}: give both, as in train.lr_rule=sqrt "
                "train.reference_batch_size=32, or neither"
            )
        return self


class EvaluateSettings(Section):
    """How answers are found and scored."""

    batch_tokens: Whole = machine(8192, "Padded tokens of one forward", ge=16)
    n_best: Whole = reporting(20, "Answers that are kept for every question", ge=1, le=1000)
    max_answer_tokens: Whole = reporting(30, "Tokens of the longest answer", ge=1, le=8192)
