"""Training with a mistake in one of the things that bits depend on; called like ``programs``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from torch import Tensor

from lightwork.data import loader
from lightwork.data.streams import stream_seed
from lightwork.sync import tree
from tests.runs.programs import train


def sum_in_rank_order(settings: str, run: str, *overrides: str) -> None:
    """What the ranks hold is added up from the first rank to the last."""

    def in_order(journey: Any, _: tree.Node) -> Tensor:
        pieces: dict[range, Tensor] = journey._pieces
        first, *others = (pieces[shares] for shares in sorted(pieces, key=lambda run: run.start))
        for piece in others:
            first += piece
        return first

    plant(tree._Journey, "_sum", in_order)
    train(settings, run, *overrides)


def accumulate_shares_together(settings: str, run: str, *overrides: str) -> None:
    """All shares of a rank add up in one buffer."""
    plant(tree.ShareSums, "reach", lambda sums, share: None)
    train(settings, run, *overrides)


def draw_by_rank(settings: str, run: str, *overrides: str) -> None:
    """Every rank has random streams of its own."""
    rank = int(os.environ["RANK"])
    plant(loader, "stream_seed", lambda *name: stream_seed(*name, rank))
    train(settings, run, *overrides)


def plant(place: Any, name: str, wrong: Callable[..., Any]) -> None:
    """Ranks are processes that end with the test, so nothing needs to be put back."""
    assert hasattr(place, name)
    setattr(place, name, wrong)
