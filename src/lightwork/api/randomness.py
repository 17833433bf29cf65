"""Every rank draws its own dropout, also in a script that seeds all of them alike."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from lightwork.comm.group import Group
from lightwork.data.streams import stream_seed

log = logging.getLogger("lightwork")

_EVALUATING = [-1.0, -1.0]
_HALF = 2**32


class Randomness:
    """Torch's random state on this rank. That of rank 0 is never touched.

    So a script on one rank draws what it draws without lightwork.
    """

    def __init__(self, group: Group, device: torch.device) -> None:
        self._group = group
        self._device = device
        self._warned = False
        self._draw_apart()

    def _draw_apart(self) -> None:
        if self._group.rank > 0:
            torch.manual_seed(stream_seed(self._seed() % 2**63, self._group.rank))

    def _seed(self) -> int:
        """The seed set last, on the device where dropout draws."""
        return torch.cuda.initial_seed() if self._device.type == "cuda" else torch.initial_seed()

    def seed(self, training: bool) -> list[float]:
        """This rank's seed as two numbers that travel whole; [-1, -1] where nothing is dropped."""
        return [float(half) for half in divmod(self._seed(), _HALF)] if training else _EVALUATING

    def check(self, seeds: Sequence[list[float]]) -> None:
        """Look for ranks that were seeded alike, given what :meth:`seed` said on all of them."""
        used = [seed for seed in seeds if seed != _EVALUATING]
        if len({tuple(seed) for seed in used}) == len(used):
            return
        if used.count(seeds[self._group.rank]) > 1:
            self._draw_apart()
        if not self._warned and self._group.rank == 0:
            log.warning(
                "several ranks were seeded alike after run.replicate, so they drop the same "
                "units: is there a torch.manual_seed or set_seed in the loop? Seed once, before "
                "run.replicate, which sets the ranks apart. They have been set apart again."
            )
        self._warned = True
