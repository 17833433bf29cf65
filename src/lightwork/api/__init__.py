"""A person's own training loop on many ranks: what `lightwork.connect` and its kin are made of."""

from lightwork.api.connecting import connect
from lightwork.api.run import Run
from lightwork.api.sharing import SharedLoader

__all__ = ["Run", "SharedLoader", "connect"]
