"""What a person's own training loop holds on to: this process as one rank among all."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.data import DataLoader

from lightwork.api.meeting import EPOCH, GATHER, SAVE, Meeting
from lightwork.api.refusals import check_model
from lightwork.api.replica import Replica
from lightwork.api.saving import Content, check_target, save
from lightwork.api.sharing import SharedLoader
from lightwork.comm.group import Group
from lightwork.errors import StepError

log = logging.getLogger("lightwork")

UNSHARED = (
    "no batch has come from run.share(loader) yet. Every rank then has to bring its own part of "
    "the batch; if all of them go over the same data, each item is learned once per rank"
)

Module = TypeVar("Module", bound=nn.Module)


class Run:
    """This process among all ranks; made by :func:`lightwork.connect`.

    Every rank runs the same script, so every rank calls the same methods in the same order.
    """

    def __init__(
        self,
        group: Group,
        device: torch.device,
        bucket_bytes: int,
        closing: ExitStack,
        rows: str = "auto",
    ) -> None:
        """``closing`` ends what was opened for this run."""
        self.device = device
        """The device of this rank."""
        self._group = group
        self._bucket_bytes = bucket_bytes
        self._rows = rows
        self._closing = closing
        self._replica: Replica | None = None
        self._filler = False
        self._warned = False
        self._handed = 0
        self._meeting = Meeting(group, lambda: self._handed)

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._group.rank

    @property
    def ranks(self) -> int:
        """How many processes there are."""
        return self._group.size

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the one that prints."""
        return self.rank == 0

    def replicate(self, model: Module) -> Module:
        """Move ``model`` to ``device``, give it rank 0's weights, and watch over its gradients.

        Returns the same bare module, so that saving and evaluating need no unwrapping. The
        optimizer may be made before or after. What is to be frozen has to be frozen before.
        Buffers, such as running means, start alike and are then each rank's own. From here on the
        ranks draw different dropout, and rank 0 what it would have drawn alone.

        Raises LaunchError on all ranks when they built different models, StepError when there is
        a replicated model already, TypeError for what is no trainable bare module, SettingsError
        when ``rows`` of ``connect`` is on and the largest embedding table does not allow it.
        """
        check_model(model)
        if self._replica is not None:
            raise StepError(
                "run.replicate was called before; a run trains one model. Put several into one "
                "torch.nn.Module, and move a model that is only used with model.to(run.device)."
            )
        model.to(self.device)
        how = (self._bucket_bytes, self._rows)
        self._replica = Replica(self._group, model, *how, self._meeting)
        return model

    def share(self, loader: DataLoader[Any], training: bool = True) -> SharedLoader:
        """A loader of this rank's part of each batch of ``loader``, which becomes the global one.

        The batches are those that one card would get, in the same order, whatever the number of
        ranks; the parts are contiguous and differ by at most one item. Each epoch begins with a
        message, so all ranks iterate alike.

        In ``training``, a rank for which a batch has no item gets its first one as a filler:
        :meth:`backward` knows and counts it as nothing. It looks at the batch handed out last, so
        do not read ahead. Otherwise such a rank simply gets fewer batches, so do not communicate
        inside the loop; collect (id, prediction) pairs and :meth:`gather` them afterwards.

        Raises TypeError for an IterableDataset, a loader without batches, or a DistributedSampler.
        """
        note = self._note_batch if training else (lambda _: None)
        meet = partial(self._meeting.meet, EPOCH)
        return SharedLoader(self._group, loader, training, note, meet)

    def _note_batch(self, is_filler: bool) -> None:
        self._filler = is_filler
        self._handed += 1

    def backward(self, loss_sum: object, count: object = None, last: bool = True) -> float:
        """Go backward and sum the gradients over all ranks, divided by the count of all.

        Args:
            loss_sum: the *sum* of the losses of this rank's part of the batch.
            count: how many losses that are (windows, tokens, ...): a number or a tensor of one.
                0 where this rank has none; do not skip the call then, the others wait for it.
                From a mean over n make ``mean * n`` and ``n``.
            last: whether the batch is complete. With False gradients only add up on this rank,
                nothing travels, and NaN is returned because no rank knows the mean yet.

        Returns the mean loss of the whole global batch, the same on all ranks. The gradients are
        then those of that mean, on all ranks: clip or log them as on one card. ``zero_grad()`` is
        not needed, and harmless outside a step. A parameter that once took part has a gradient of
        zero, not None, in a step that does not use it.

        Raises:
            TypeError: no count, or the loss is not one number with a graph.
            ValueError: a count that is negative or not finite.
            StepError: on all ranks together: a loss is not finite, a backward failed, gradients
                were taken away half-way, or nothing was counted. Nothing has been applied.
        """
        if self.ranks > 1 and not self._handed and not self._warned and self.is_first:
            self._warned = True
            log.warning(UNSHARED)
        return self._trained().backward(loss_sum, count, last, self._filler)

    def step(self, optimizer: Any) -> None:
        """``optimizer.step()``, once it is sure that there are gradients of all ranks to apply.

        Raises StepError when there are none, or the optimizer updates something else.
        """
        self._trained().step(optimizer)

    def _trained(self) -> Replica:
        if self._replica is None:
            raise StepError("there is no model to train yet; call run.replicate(model) first")
        return self._replica

    def gather(self, items: list[Any]) -> list[Any]:
        """The items of all ranks in one list, in rank order, on every rank.

        Items are what JSON can say, at most 256 MiB from a rank.
        """
        if not isinstance(items, list):
            raise TypeError(f"run.gather takes a list, not {type(items).__name__}")
        self._meeting.meet(GATHER)
        return [item for rank in self._group.gather_json(items) for item in rank]

    def save(self, path: str | Path, content: Content) -> None:
        """Let rank 0 write ``content`` at ``path``; the others wait until it is there.

        Args:
            path: a file or folder; missing parents are made. What is there is replaced when the
                new one is whole and on the disk, never before. A folder with files that this
                save does not write is left alone, and so is a file where a folder is saved.
            content: a function that is called with a temporary path to write a file or a folder
                at, such as ``model.save_pretrained``; or tensors by name, for which ``path`` must
                end in ``.safetensors``.

        Raises RunError on all ranks when rank 0 could not write it.
        """
        check_target(path, content)
        self._meeting.meet(SAVE)
        save(self._group, path, content)

    def close(self) -> None:
        """Let go of the other ranks. Happens by itself when the process ends."""
        self._closing.close()
