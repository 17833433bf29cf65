"""Page-locked memory: from it a GPU fetches a batch by itself, while it computes another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from lightwork.data.plan import Windows

Collate = Callable[["Windows", int], "dict[str, Tensor]"]


def pinned(collate: Collate) -> Collate:
    """As ``collate``, but the tensors it gives are copied to page-locked memory.

    The copy is made by whoever calls, which is the prefetch thread. PyTorch gives such memory out
    again only when the device has fetched what was in it.
    """

    def collate_pinned(windows: Windows, padded_tokens: int) -> dict[str, Tensor]:
        batch = collate(windows, padded_tokens)
        return {name: tensor.pin_memory() for name, tensor in batch.items()}

    return collate_pinned
