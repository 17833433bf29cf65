"""``train.seed: random``: a number that is drawn once for a run, and recorded with it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from lightwork.settings.kinds import SEED_BITS
from lightwork.settings.schema import Settings

RANDOM = "random"


def is_random(settings: Settings) -> bool:
    """Whether ``train.seed`` is still to be drawn."""
    return str(settings.train.seed) == RANDOM


def numbered(settings: Settings, recorded: Mapping[str, Any]) -> Settings:
    """``settings`` with a number for ``train.seed``.

    The one that was given; for ``random`` that of the run with the ``recorded`` identity, or a new
    one where there is none.
    """
    if not is_random(settings):
        return settings
    seed = recorded.get("train.seed")
    train = {"seed": secrets.randbits(SEED_BITS) if seed is None else seed}
    changed = settings.model_copy(update={"train": settings.train.model_copy(update=train)})
    changed._given.update(settings._given)
    return changed
