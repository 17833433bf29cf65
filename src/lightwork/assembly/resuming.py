"""What a checkpoint holds, and how a run goes on from one at whatever number of ranks."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lightwork import __version__
from lightwork.comm.group import Group
from lightwork.data.loader import Loader
from lightwork.data.store import Store
from lightwork.errors import CheckpointError
from lightwork.settings import RunRecord, Settings, to_yaml
from lightwork.tasks.extractive.model import save_model
from lightwork.telemetry.lines import RESTARTS, json_lines, read_evaluations
from lightwork.train.checkpoint import Checkpoints, Part, read_state, read_tensors
from lightwork.train.duties import Sums
from lightwork.train.optimizer import LocalUpdate
from lightwork.train.replicas import checksum_of, send_tensors, sums_of
from lightwork.train.scores import Best
from lightwork.train.snapshots import Snapshots
from lightwork.train.step import Stepper
from lightwork.train.writer import HostCopies

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


def newest(group: Group, run: Path, run_id: str, snapshots: Snapshots | None) -> Resume | None:
    """The newest state of the run that verifies, found by rank 0; None when the run has none.

    It is a checkpoint, or the snapshot that is newer than all of them.

    Raises CheckpointError on all ranks together when there are some and none verifies.
    """
    found: dict[str, Any] = {}
    if group.rank == 0:
        try:
            path = _newest(Checkpoints(run, run_id), snapshots)
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


def _newest(checkpoints: Checkpoints, snapshots: Snapshots | None) -> Path | None:
    on_disk, problem = None, None
    try:
        on_disk = checkpoints.newest(log.warning)
    except CheckpointError as error:
        problem = error
    found = snapshots.newer_than(on_disk) if snapshots is not None else None
    if found is not None:
        log.info("going on from the snapshot in memory, which is newer than every checkpoint")
        return found
    if problem is not None:
        raise problem
    if on_disk is None and _had_some(checkpoints.folder.parent):
        raise CheckpointError(
            f"the checkpoints of this run are gone from {checkpoints.folder}. Put them back, or "
            "choose another --run folder to start afresh."
        )
    return on_disk


def _had_some(run: Path) -> bool:
    """Whether other files of the run know of a checkpoint: one was scored, or gone on from."""
    starts = json_lines(run / RESTARTS)
    return bool(read_evaluations(run)) or any(
        line.get("newest") and "memory" not in line["newest"] for line in starts
    )


def take_over(
    group: Group, resume: Resume, store: Store, module: nn.Module, update: LocalUpdate
) -> None:
    """Check that the data is the same, give every rank the optimizer's state, and check that it
    and ``module``, which was loaded from the checkpoint, are what the ranks held then."""
    if resume.windows != windows_digest(store):
        raise CheckpointError(
            f"{resume.checkpoint} was learning from other windows than the data gives now, so "
            "its place in the epoch means nothing. Was another version of the tokenizers library "
            "installed? Go back to it, or choose another --run folder to start afresh."
        )
    tensors = read_tensors(resume.checkpoint, "optimizer") if group.rank == 0 else {}
    update.load(send_tensors(group, tensors))
    _check_loaded(group, resume, module, update)


def _check_loaded(group: Group, resume: Resume, module: nn.Module, update: LocalUpdate) -> None:
    """CheckpointError, on all ranks together, where a rank holds something else now."""
    written = resume.state.get("checksum")
    if written is None:  # an earlier version wrote it
        return
    loaded = group.gather_json(checksum_of(sums_of(saved_tensors(module, update))))
    wrong = [rank for rank, checksum in enumerate(loaded) if checksum != written]
    if wrong:
        raise CheckpointError(
            f"what rank {wrong[0]} loaded from {resume.checkpoint} has the checksum "
            f"{loaded[wrong[0]]}, but what the ranks held when it was written had {written}. Its "
            "files verify, so it was copied or loaded wrongly: suspect the memory, or another "
            "version of PyTorch or Transformers. Delete that checkpoint to go on from an older one."
        )


def saved_tensors(module: nn.Module, update: LocalUpdate) -> dict[str, Tensor]:
    """By name, each tensor of which a checkpoint keeps the values, once."""
    kept = module.state_dict().keys()
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return dict(module.named_parameters()) | buffers | update.parts()


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
) -> Callable[[int, Sums, Best | None], Iterable[Part]]:
    """What the checkpoint of a step holds; ``facts`` are those that no step changes."""
    weights, moments = HostCopies(), HostCopies()

    def parts(step: int, sums: Sums, best: Best | None) -> Iterable[Part]:
        cutting = asdict(loader.cutting)
        state = {
            "step": step,
            "position": asdict(loader.position(step)),
            **facts,
            "cutting": cutting,
            "fingerprint": {**facts["fingerprint"], **cutting},
            "stepper": stepper.state(),
            "best": best and asdict(best),
        }
        names = saved_tensors(module, update).keys()
        copied, kept = weights.take(module.state_dict()), moments.take(update.parts())

        def made() -> Iterator[Part]:
            """Whatever can be done beside training."""
            yield Part("model", partial(save_model, module, tokenizer, weights=copied))
            yield Part("optimizer", kept)
            held = {**copied, **kept}
            own = sums or sums_of({name: held[name] for name in names})
            checksum = checksum_of({name: own[name] for name in names})
            yield Part("state", {**state, "checksum": checksum})

        return made()

    return parts


def constant_facts(
    store: Store, ranks: int, record: RunRecord, settings: Settings
) -> dict[str, Any]:
    """What every checkpoint of this start says beside how the run stands there."""
    return {
        "format": FORMAT,
        "windows": windows_digest(store),
        "asked_micro_batch_tokens": settings.train.micro_batch_tokens,
        "ranks": ranks,
        "threads": torch.get_num_threads(),
        "lightwork": __version__,
        "torch": torch.__version__,
        "attempt": record.attempts,
        "identity": record.identity,
        "settings": to_yaml(settings),
        "impossible": bool(store.facts["impossible"]),
    }
