"""The embedding tables of a person's model of which only rows travel, as ``rows`` asks for."""

from __future__ import annotations

from torch import nn

from lightwork.comm.group import Group
from lightwork.errors import LaunchError, SettingsError
from lightwork.sync.rows import pays
from lightwork.sync.tables import name_of, unfit

ROWS = ("auto", "on", "off")


def check_rows(rows: object) -> None:
    """Raise ValueError for what ``rows`` cannot be."""
    if rows not in ROWS:
        raise ValueError(f"rows is 'auto', 'on' or 'off', not {rows!r}")


def choose_tables(group: Group, model: nn.Module, rows: str) -> dict[str, nn.Embedding]:
    """Tables by the names of their weights, alike on all ranks; none where nothing travels.

    Raises SettingsError when ``rows`` is on and the largest table cannot travel like this,
    LaunchError on all ranks when they choose different ones.
    """
    chosen = {} if rows == "off" else _fit(model, always=rows == "on")
    if rows == "on":
        _check_largest(model)
    told = group.gather_json(list(chosen))
    for rank, names in enumerate(told):
        if names != told[0]:
            raise LaunchError(
                f"rank {rank} would send rows of {_listed(names)}, and rank 0 of "
                f"{_listed(told[0])}. All ranks need the same rows= in lightwork.connect, the same "
                "frozen and the same tied parts."
            )
    return chosen if group.size > 1 else {}


def _tables(model: nn.Module) -> list[nn.Embedding]:
    return [module for module in model.modules() if isinstance(module, nn.Embedding)]


def _fit(model: nn.Module, always: bool) -> dict[str, nn.Embedding]:
    return {
        name_of(model, table): table
        for table in _tables(model)
        if (always or pays(0, table.weight)) and unfit(model, table) is None
    }


def _check_largest(model: nn.Module) -> None:
    tables = _tables(model)
    if not tables:
        raise SettingsError(
            "lightwork.connect got rows='on', but the model has no torch.nn.Embedding; leave it out"
        )
    largest = max(tables, key=lambda table: table.weight.nbytes)
    reason = unfit(model, largest)
    if reason is not None:
        raise SettingsError(
            f"lightwork.connect got rows='on', but the largest table of the model, "
            f"{name_of(model, largest)}, cannot travel row by row, because {reason}; with "
            "rows='auto' all of it is sent"
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "no table"
