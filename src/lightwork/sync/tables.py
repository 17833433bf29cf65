"""Which embedding tables can be exchanged row by row: those of which a batch only reads rows."""

from __future__ import annotations

from torch import nn


def unfit(model: nn.Module, table: nn.Module) -> str | None:
    """Why gradients may appear in rows of ``table``, a part of ``model``, that no batch reads.

    In words that follow "because"; None where nothing speaks against it. What a look at the model
    cannot tell, such as a function that uses the weight directly, is looked for in the gradients.
    """
    if type(table) is not nn.Embedding:
        return f"it is a {type(table).__name__}, which may do more than torch.nn.Embedding"
    if table.max_norm is not None:
        return "max_norm changes its rows while they are read"
    if table.sparse:
        return "sparse=True makes gradients of another kind"
    if not table.weight.requires_grad:
        return "it does not learn"
    others = [
        f"{place}.{name}" if place else name
        for place, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
        if parameter is table.weight and module is not table
    ]
    return f"its weight is also {others[0]}" if others else None


def name_of(model: nn.Module, table: nn.Embedding) -> str:
    """What ``model.named_parameters`` calls the weight of ``table``."""
    return next(name for name, parameter in model.named_parameters() if parameter is table.weight)
