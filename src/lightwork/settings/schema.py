"""Every setting: its section, type, range, default, kind and one line of help.

The kind says what a change of the setting touches:

* ``identity``: what is learned; another value is another run,
* ``machine``: where and how fast it is learned; a run may continue with another value,
* ``reporting``: what is measured and written down on the way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import PrivateAttr, model_validator

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
    Size,
    Text,
    Threads,
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


class SyncSettings(Section):
    """How the gradients of all ranks become one."""

    strategy: Literal["all_reduce", "tree", "ddp"] = machine(
        "all_reduce", "How gradients are summed; tree: to the same bits at any number of ranks"
    )
    bucket_bytes: Size = machine(
        8 << 20, "Gradients that travel as one message; 8MiB and 25MB are understood", ge=1024
    )
    rows: Literal["auto", "off"] = machine(
        "auto", "Of the word embeddings send what the batch touches; off: all; not with ddp"
    )
    timeout_s: Positive = machine(600.0, "Seconds without an answer after which a peer is lost")


class CheckpointSettings(Section):
    """When the state of a run is saved."""

    every_minutes: Positive | None = machine(
        30.0, "Minutes between two checkpoints; null: none by the clock"
    )
    every_steps: AtLeastOne | None = machine(
        None, "Steps between two checkpoints; null: none by the count"
    )
    snapshot_every_steps: AtLeastOne | None = machine(
        None, "Steps between two copies in /dev/shm, for when a process dies; null: none"
    )
    keep: Whole = machine(3, "Newest checkpoints that are kept, besides the best one", ge=1)


class LaunchSettings(Section):
    """How the processes are started."""

    device: Literal["auto", "cpu", "cuda"] = machine("auto", "Where to compute; auto: cuda if any")
    threads: Literal["auto"] | Threads = machine(
        "auto",
        "Threads of a rank; auto: cores divided by its machine's ranks, with tree by the shares",
    )
    grace_s: Number = machine(
        30.0, "Seconds that ranks get to save and end after a signal, before they are killed", ge=0
    )
    restarts: Whole = machine(
        10, "New attempts after a rank died or hung; 0: none", ge=0, le=100_000
    )
    hang_timeout_s: Positive | None = machine(
        300.0, "Seconds without progress after which a rank hangs; null: nobody looks"
    )


class Settings(Section):
    """All settings of one run, with absolute paths."""

    data: DataSettings
    model: ModelSettings
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    sync: SyncSettings = SyncSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    launch: LaunchSettings = LaunchSettings()

    @model_validator(mode="after")
    def _patience_has_scores(self) -> Settings:
        if self.train.patience is not None and not self.data.dev:
            raise ValueError(
                f"train.patience is {self.train.patience}, but without data.dev there are no "
                "scores to wait for; name a file of held-out questions in data.dev"
            )
        return self

    @model_validator(mode="after")
    def _compiled_sums_have_no_order(self) -> Settings:
        if self.train.compile and self.sync.strategy == "tree":
            raise ValueError(
                "train.compile is true and sync.strategy is tree: compiled code adds up in orders "
                "of its own and draws other random numbers, so equal bits cannot be promised; set "
                "train.compile=false, or sync.strategy=all_reduce"
            )
        return self

    _given: dict[str, str] = PrivateAttr(default_factory=dict)
    """Paths as they were written, by their absolute form; for messages only."""

    def __eq__(self, other: object) -> bool:
        """Equal values; how a path was written does not matter."""
        return isinstance(other, Settings) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        """Equal settings have equal hashes."""
        return hash(self.model_dump_json())

    def as_given(self, path: Path | str) -> str:
        """``path`` as it was written in the settings file or on the command line."""
        return self._given.get(str(path), str(path))
