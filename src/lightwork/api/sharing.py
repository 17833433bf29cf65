"""One loader for all ranks: its batches are the global ones, and every rank gets a part of each.

Rank 0 alone asks the sampler, at the moment in which a plain ``DataLoader`` would, and sends the
order to the others. So there is one order, whatever the random state of the other ranks is, and it
is the order that the same script has on one card.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from lightwork.comm.group import Group
from lightwork.data.streams import stream_seed
from lightwork.errors import DataError


class SharedLoader:
    """Iterates over this rank's part of every global batch; ``len`` counts the global batches.

    ``dataset``, ``sampler``, ``batch_sampler`` and ``batch_size`` are those of the loader that was
    shared, so that a sampler's ``set_epoch`` can be called as before.
    """

    def __init__(
        self,
        group: Group,
        loader: DataLoader[Any],
        fill: bool,
        note: Callable[[bool], None],
        meet: Callable[[], None],
    ) -> None:
        """``fill``: a rank without items gets the first one of the batch, and ``note`` is told.

        ``note(is_filler)`` is called before each batch is handed out, ``meet()`` before the ranks
        agree on the order of an epoch. Raises TypeError for what
        cannot be shared.
        """
        _check(loader)
        self.dataset = loader.dataset
        self.sampler = loader.sampler
        self.batch_sampler = loader.batch_sampler
        self.batch_size = loader.batch_size
        self._note = note
        items = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None
        self._parts = _Parts(group, loader.batch_sampler or (), items, fill, meet)
        self._inner = _like(loader, self._parts, _generator(loader.generator, group.rank))

    def __len__(self) -> int:
        """Global batches in one epoch."""
        return len(self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        """One epoch; every rank begins it, because here they agree on the order."""
        return self._follow(iter(self._inner))

    def _follow(self, batches: Iterator[Any]) -> Iterator[Any]:
        fillers: list[bool] = []
        for number, batch in enumerate(batches):
            fillers = fillers or self._parts.fillers
            self._note(fillers[number])
            yield batch


class _Parts:
    """The batch sampler behind this rank's loader. One iteration is one epoch."""

    def __init__(
        self,
        group: Group,
        batches: Iterable[Any],
        items: int | None,
        fill: bool,
        meet: Callable[[], None],
    ) -> None:
        self.fillers: list[bool] = []
        """Of the epoch begun last: whether each batch that this rank gets is a filler."""
        self._group = group
        self._batches = batches
        self._items = items
        self._fill = fill
        self._meet = meet

    def __iter__(self) -> Iterator[list[int]]:
        # A generator: nothing is drawn before the loader asks for the first batch, as always.
        mine = []
        self.fillers = []
        self._meet()
        for batch in agree_on_order(self._group, self._batches, self._items):
            own = part(batch, self._group.rank, self._group.size)
            if own or self._fill:
                self.fillers.append(not own)
                mine.append(own or batch[:1])
        yield from mine


def part(batch: Sequence[int], rank: int, ranks: int) -> list[int]:
    """The contiguous part of a global batch that ``rank`` gets; the sizes differ by at most 1."""
    return list(batch[len(batch) * rank // ranks : len(batch) * (rank + 1) // ranks])


def agree_on_order(
    group: Group, batches: Iterable[Sequence[Any]], items: int | None
) -> list[list[int]]:
    """The global batches of an epoch as rank 0's sampler gives them; others ask no sampler.

    ``items`` is the length of this rank's data set. Raises DataError on all ranks when these
    differ. What the sampler raises is raised on rank 0, and a DataError on the others.
    """
    found: list[list[int]] = []
    failure: Exception | None = None
    if group.rank == 0:
        try:
            found = [_numbers(batch) for batch in batches]
        except Exception as error:  # noqa: BLE001 - raised below, once the others know
            failure = error
    sizes = [len(batch) for batch in found]
    told = group.gather_json(
        {
            "items": items,
            "sizes": len(sizes),
            "indices": sum(sizes),
            "problem": failure and str(failure),
        }
    )
    if failure is not None:
        raise failure
    if told[0]["problem"] is not None:
        raise DataError(f"the batches could not be listed on rank 0: {told[0]['problem']}")
    _check_items([row["items"] for row in told])
    batch_count = told[0]["sizes"]
    order = torch.empty(batch_count + told[0]["indices"], dtype=torch.int64)
    if group.rank == 0:
        order = torch.tensor(
            [*sizes, *(index for batch in found for index in batch)], dtype=torch.int64
        )
    group.broadcast(order).wait()
    pieces = order[batch_count:].split(order[:batch_count].tolist())
    return [piece.tolist() for piece in pieces] if batch_count else []


def _check_items(lengths: list[int | None]) -> None:
    for rank, length in enumerate(lengths):
        if length != lengths[0]:
            raise DataError(
                f"rank {rank} has a data set of {length} items and rank 0 one of {lengths[0]}. "
                "Every rank needs the same whole data set: run.share cuts the batches, so do not "
                "cut the data yourself, and read the same files everywhere."
            )


def _numbers(batch: Sequence[Any]) -> list[int]:
    try:
        numbers = [operator.index(item) for item in batch]
    except TypeError:
        raise TypeError(
            f"the batch sampler gave {batch!r}; run.share needs batches that are lists of whole "
            "numbers, the positions of items in the data set"
        ) from None
    if not numbers:
        raise ValueError("the batch sampler gave an empty batch")
    return numbers


def _check(loader: object) -> None:
    """Raise TypeError for what cannot be cut into parts, saying why."""
    if isinstance(loader, SharedLoader):
        raise TypeError("this loader is shared already; sharing it again would cut batches twice")
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"run.share takes a torch.utils.data.DataLoader, not {type(loader).__name__}"
        )
    if isinstance(loader.dataset, IterableDataset):
        raise TypeError(
            "run.share cannot share an IterableDataset: it has no positions, so nobody can say "
            "which items are this rank's. Use a data set with __getitem__ and __len__."
        )
    if loader.batch_sampler is None:
        raise TypeError(
            "run.share needs batches, and this DataLoader has batch_size=None; give it the size "
            "of the global batch"
        )
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise TypeError(
            f"{type(loader).__name__} iterates in a way of its own, which run.share would lose; "
            "share a plain torch.utils.data.DataLoader"
        )
    samplers = (loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", 0))
    if any(isinstance(sampler, DistributedSampler) for sampler in samplers):
        raise TypeError(
            "this DataLoader has a DistributedSampler, which gives each rank a part of the data; "
            "run.share cuts every batch itself, so the data would be divided twice. Use "
            "shuffle=True, or the sampler you would use on one card."
        )


def _like(
    loader: DataLoader[Any], parts: _Parts, generator: torch.Generator | None
) -> DataLoader[Any]:
    """The same loader with other batches."""
    return DataLoader(
        loader.dataset,
        batch_sampler=parts,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=generator,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        persistent_workers=loader.persistent_workers,
        pin_memory_device=loader.pin_memory_device,
    )


def _generator(given: torch.Generator | None, rank: int) -> torch.Generator | None:
    """The generator that seeds this rank's workers; on rank 0 that of the loader.

    Elsewhere it draws no order, and equal ones would augment different items alike.
    """
    if given is None or rank == 0:
        return given
    return torch.Generator().manual_seed(stream_seed(given.initial_seed() % 2**63, rank))
