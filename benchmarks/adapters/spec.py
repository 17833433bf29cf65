"""What a race and a contender are given, as JSON files. Standard library only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

STEPS = "steps.jsonl"
PREDICTIONS = "predictions.json"


@dataclass(frozen=True)
class Spec:
    """One training: the data, the model to start from, and how it is learned."""

    model: str
    """Folder of the model all contenders start from, answer head included."""
    train_file: str
    """SQuAD file of the training questions; each gives exactly one window."""
    dev_file: str
    train_windows: str
    """The same questions as tokenised windows, for contenders that cache them so."""
    dev_windows: str
    dev_examples: str
    """JSON list of ``{"id", "context"}``, in the order the windows count them."""
    cache: str
    """Folder of lightwork's own stores."""
    out: str
    """Folder that this run writes to."""
    windows: int
    """Training windows of one epoch."""
    ranks: int = 2
    batch_size: int = 32
    """Windows behind one update, over all ranks."""
    epochs: int = 1
    max_steps: int | None = None
    learning_rate: float = 2e-4
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    seed: int = 42
    max_length: int = 384
    stride: int = 128
    n_best: int = 20
    max_answer_tokens: int = 30
    eval_batch: int = 32
    """Windows of a rank in one forward of the evaluation, for contenders that are tuned."""
    workers: int = 0
    """Processes that load data, per rank, for contenders that are tuned."""
    device: str = "cpu"
    """``cpu`` or ``cuda``."""
    warmup_steps: int = 1
    """Steps that are not measured."""
    whole: bool = False
    """Save at the end and answer the dev questions; otherwise only train."""
    log_every_steps: int = 10

    @property
    def rank_batch(self) -> int:
        """Windows of one rank in one step, where each has as many."""
        return self.batch_size // self.ranks

    @property
    def pad_to_multiple_of(self) -> int | None:
        """For contenders that are tuned: what kernels of GPUs like, and only costs on a CPU."""
        return 8 if self.device == "cuda" else None

    @property
    def epoch_steps(self) -> int:
        """Updates of one epoch; the last may see fewer windows."""
        return -(-self.windows // self.batch_size)

    @property
    def steps(self) -> int:
        """Updates of the whole training."""
        steps = self.epochs * self.epoch_steps
        return min(steps, self.max_steps or steps)

    def step_windows(self, step: int) -> int:
        """New windows behind update ``step``, from 1; what a peer repeats to fill up is not new."""
        last = step % self.epoch_steps == 0
        return self.windows - (self.epoch_steps - 1) * self.batch_size if last else self.batch_size

    def save(self, path: Path) -> None:
        """Write it where :meth:`load` reads it."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @staticmethod
    def load(path: str) -> Spec:
        """Read what :meth:`save` wrote."""
        return Spec(**json.loads(Path(path).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Request:
    """What is prepared in ``folder`` before a race."""

    folder: str
    model: str
    """As ``model.source`` of lightwork's settings."""
    train_file: str
    dev_file: str | None
    windows: int | None
    """Training windows; None: all there are."""
    layers: int | None
    """Keep only the first layers of the encoder; None: all."""
    seed: int
    max_length: int
    stride: int

    def save(self, path: Path) -> None:
        """Write it where :meth:`load` reads it."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @staticmethod
    def load(path: str) -> Request:
        """Read what :meth:`save` wrote."""
        return Request(**json.loads(Path(path).read_text(encoding="utf-8")))
