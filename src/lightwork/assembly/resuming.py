"""What a checkpoint holds, and how a run goes on from one at whatever number of ranks."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lightwork import __version__
from lightwork.comm.group import Group
from lightwork.data.loader import Loader
from lightwork.data.store import Store
from lightwork.errors import CheckpointError
from lightwork.tasks.extractive.model import save_model
from lightwork.train.checkpoint import Checkpoints, Part, read_state, read_tensors
from lightwork.train.optimizer import LocalUpdate
from lightwork.train.replicas import send_tensors
from lightwork.train.step import Stepper

log = logging.getLogger("lightwork")

FORMAT = 1


@dataclass(frozen=True)
class Resume:
    """Where a run stands: the checkpoint to go on from and the updates it holds."""

    checkpoint: Path
    step: int
    windows: str
    """Digest of the windows it has been learning from."""
    state: dict[str, Any]
    """All that ``state.json`` says; less where an earlier version wrote it."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What its bits depend on; empty where an earlier version wrote it."""
        found: dict[str, Any] = self.state.get("fingerprint", {})
        return found

    @property
    def model(self) -> Path:
        """The Hugging Face folder in it."""
        return self.checkpoint / "model"


def newest(group: Group, run: Path) -> Resume | None:
    """The newest checkpoint that verifies, found by rank 0; None when the run has none.

    Raises CheckpointError on all ranks together when there are some and none verifies.
    """
    found: dict[str, Any] = {}
    if group.rank == 0:
        try:
            path = Checkpoints(run).newest(log.warning)
            if path is not None:
                found = {"checkpoint": str(path), "state": read_state(path)}
        except CheckpointError as error:
            found = {"problem": str(error)}
    found = group.gather_json(found)[0]
    if "problem" in found:
        raise CheckpointError(found["problem"])
    if not found:
        return None
    state = found["state"]
    return Resume(Path(found["checkpoint"]), state["step"], state["windows"], state)


def take_over(group: Group, resume: Resume, store: Store, update: LocalUpdate) -> None:
    """Check that the data is the same and give every rank the optimizer's state."""
    if resume.windows != windows_digest(store):
        raise CheckpointError(
            f"{resume.checkpoint} was learning from other windows than the data gives now, so "
            "its place in the epoch means nothing. Was another version of the tokenizers library "
            "installed? Go back to it, or choose another --run folder to start afresh."
        )
    tensors = read_tensors(resume.checkpoint, "optimizer") if group.rank == 0 else {}
    update.load(send_tensors(group, tensors))


def windows_digest(store: Store) -> str:
    """16 hex digits of the lengths of all windows, in order: what the epoch plan is made from."""
    lengths = np.ascontiguousarray(store.column("tokens"))
    return hashlib.sha256(lengths.tobytes()).hexdigest()[:16]


def checkpoint_parts(
    module: Any,
    tokenizer: Any,
    update: LocalUpdate,
    loader: Loader,
    stepper: Stepper,
    facts: dict[str, Any],
) -> Callable[[int], Sequence[Part]]:
    """What the checkpoint of a step holds; ``facts`` are those that no step changes."""

    def parts(step: int) -> Sequence[Part]:
        cutting = asdict(loader.cutting)
        state = {
            "step": step,
            "position": asdict(loader.position(step)),
            **facts,
            "cutting": cutting,
            "fingerprint": {**facts["fingerprint"], **cutting},
            "stepper": stepper.state(),
        }
        return (
            Part("model", partial(save_model, module, tokenizer)),
            Part("optimizer", update.parts()),
            Part("state", state),
        )

    return parts


def constant_facts(
    store: Store, ranks: int, identity: dict[str, Any], asked: int | str
) -> dict[str, Any]:
    """What every checkpoint of this start says beside how the run stands there.

    ``asked``: ``train.micro_batch_tokens`` as it was set.
    """
    return {
        "format": FORMAT,
        "windows": windows_digest(store),
        "asked_micro_batch_tokens": asked,
        "ranks": ranks,
        "threads": torch.get_num_threads(),
        "lightwork": __version__,
        "torch": torch.__version__,
        "identity": identity,
        "impossible": bool(store.facts["impossible"]),
    }
