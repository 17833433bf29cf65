"""What every task gives the rest of the house. A task knows no ranks and never communicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

Batch = dict[str, "Tensor"]
"""The tensors of one micro-batch or evaluation batch; dimension 0 is the window."""

Candidate = list[Any]
"""One JSON-able proposal of an answer; element 0 is the number of its example in the store."""


class Rows(Protocol):
    """Read access to a store's columns; ``data.store.Store`` is one."""

    def column(self, name: str) -> NDArray[Any]:
        """All values of a plain (not ragged) column."""
        ...

    def row(self, name: str, index: int) -> NDArray[Any]:
        """One row of a ragged column, without copying."""
        ...

    def text(self, name: str, index: int) -> str:
        """One row of a ragged ``uint8`` column, decoded as UTF-8."""
        ...


class Task(Protocol):
    """What is being learned: how windows become tensors, a loss, and answers."""

    name: str

    def collate(self, rows: Rows, windows: NDArray[np.integer], padded_tokens: int) -> Batch:
        """Tensors of these windows, each padded to ``padded_tokens``."""
        ...

    def touched_rows(self, rows: Rows, windows: NDArray[np.integer]) -> Tensor:
        """The words of these windows, ``[k]``, each once: rows of the table of word embeddings."""
        ...

    def forward(self, model: nn.Module, batch: Batch) -> Any:
        """Call ``model`` with those tensors of ``batch`` that it takes."""
        ...

    def loss(self, outputs: Any, batch: Batch) -> Tensor:
        """The *sum* over the rows of their loss, a scalar; rows weigh ``batch["weight"]``."""
        ...

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        """The repeated blocks of ``model``, first to last."""
        ...

    def candidates(self, outputs: Any, batch: Batch) -> list[Candidate]:
        """The n best answers of every row."""
        ...

    def merge(self, candidates: Iterable[Candidate], rows: Rows) -> dict[str, list[dict[str, Any]]]:
        """Candidates of all windows -> per example id its n best answers, in input order."""
        ...

    def score(
        self, predictions: dict[str, list[dict[str, Any]]], rows: Rows
    ) -> dict[str, float | int]:
        """The scores over all examples of the store."""
        ...

    def remark(
        self, predictions: dict[str, list[dict[str, Any]]], scores: dict[str, float | int]
    ) -> str:
        """What a person should know before believing these scores, in a line; or nothing."""
        ...

    def scored_as(self, rows: Rows) -> str:
        """How :meth:`score` judges the answers to these questions, in words for people."""
        ...

    def example_ids(self, rows: Rows, windows: Sequence[int]) -> list[str]:
        """The ids of the examples these windows come from, for messages."""
        ...

    def files(self, predictions: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
        """File name -> JSON content, in the shapes that official evaluators read."""
        ...
