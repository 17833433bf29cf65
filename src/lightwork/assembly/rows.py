"""Whether the word embeddings of a model travel row by row, as ``sync.rows`` asks for."""

from __future__ import annotations

from typing import Any

from torch import nn

from lightwork.comm.group import Group
from lightwork.errors import SettingsError
from lightwork.settings import Settings
from lightwork.sync.rows import Touched
from lightwork.sync.tables import name_of, unfit


def tables_of(group: Group, settings: Settings, model: nn.Module) -> list[Touched]:
    """The table of word embeddings, where only rows of it travel; otherwise none.

    Raises SettingsError, on all ranks alike, when ``sync.rows`` is on and the model does not allow
    it.
    """
    asked, strategy = settings.sync.rows, settings.sync.strategy
    if asked == "off" or strategy == "ddp":
        return []
    reason = why_whole(model)
    if reason is not None:
        if asked == "on":
            raise SettingsError(
                f"sync.rows is on, but the word embeddings of model.source "
                f"{settings.model.source!r} cannot travel row by row, because {reason}; set "
                "sync.rows=auto, which then sends the whole table"
            )
        return []
    if group.size == 1 and strategy != "tree":  # which adds up shares also where nothing travels
        return []
    return [Touched(name_of(model, _words(model)), group, always=asked == "on")]


def table_of(model: nn.Module) -> str | None:
    """The parameter that holds the word embeddings, where rows of it can travel."""
    return name_of(model, _words(model)) if why_whole(model) is None else None


def why_whole(model: nn.Module) -> str | None:
    """Why words that are not in the batch may get a gradient; None: they get none."""
    table = _words(model)
    reason = unfit(model, table)
    places = [
        name for name, module in model.named_modules(remove_duplicate=False) if module is table
    ]
    if reason is None and len(places) > 1:  # such as a decoder, which may read other words
        return f"it is read in two places, {places[0]} and {places[1]}"
    return reason


def _words(model: Any) -> Any:
    return model.get_input_embeddings()
