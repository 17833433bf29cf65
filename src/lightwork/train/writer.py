"""Checkpoints are written beside training: copied in memory first, then put on the disk.

The thread that writes sends no messages: which ranks hear of its failure, and when, is decided
between steps, by all of them together.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from lightwork.errors import CheckpointError
from lightwork.train.checkpoint import Part

log = logging.getLogger("lightwork")


Save = Callable[[int, Iterable[Part]], object]
"""Given a step and what its checkpoint holds."""


class Writer:
    """Writes one checkpoint at a time in a thread of its own.

    The thread is no daemon: whatever ends the process, the interpreter waits for the checkpoint
    that was begun.
    """

    def __init__(self, save: Save) -> None:
        self._save = save
        self._thread: threading.Thread | None = None
        self._problem: str | None = None

    @property
    def writing(self) -> bool:
        """Whether a checkpoint is being written now."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def failed(self) -> bool:
        """Whether a checkpoint could not be written, and :meth:`wait` has not said so yet."""
        return self._problem is not None

    def begin(self, step: int, parts: Iterable[Part], save: Save | None = None) -> None:
        """Write the checkpoint of ``step``; the one before must have been waited for.

        What ``parts`` hold must not change until :meth:`wait` returns. ``save``: another way to
        write it than that of this writer.
        """
        assert self._thread is None
        self._thread = threading.Thread(
            target=self._run, args=(step, parts, save or self._save), name="lightwork-checkpoint"
        )
        self._thread.start()

    def wait(self) -> str | None:
        """Until nothing is being written any more: why it failed, which is told once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        problem, self._problem = self._problem, None
        return problem

    def _run(self, step: int, parts: Iterable[Part], save: Save) -> None:
        try:
            save(step, parts)
        except CheckpointError as error:
            self._problem = str(error)
        except Exception as error:  # told to all ranks, who stop together
            log.exception("the checkpoint of step %d failed", step)
            self._problem = (
                f"the checkpoint of step {step} failed unexpectedly ({type(error).__name__}: "
                f"{error}); older ones are untouched"
            )


class HostCopies:
    """Copies of tensors in the memory of the host, in the same places every time."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    @torch.no_grad()
    def take(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copy ``tensors``, over what was copied before; complete when this returns.

        Names of the same tensor, such as tied weights, get the same copy.
        """
        buffers: dict[str, Tensor] = {}
        copies: dict[str, Tensor] = {}
        known: dict[tuple[object, ...], Tensor] = {}
        for name, tensor in tensors.items():
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if place not in known:
                buffers[name] = known[place] = _buffer_for(tensor, self._buffers.get(name))
                known[place].copy_(tensor, non_blocking=True)
            copies[name] = known[place]
        self._buffers = buffers
        for device in {tensor.device for tensor in tensors.values() if tensor.is_cuda}:
            torch.cuda.current_stream(device).synchronize()
        return copies


def _buffer_for(tensor: Tensor, held: Tensor | None) -> Tensor:
    """``held`` where ``tensor`` fits into it, or new memory, for CUDA such as it writes to fast."""
    if held is not None and held.shape == tensor.shape and held.dtype == tensor.dtype:
        return held
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
