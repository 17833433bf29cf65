"""Question-answering models, trained by data parallelism: the same model on every card.

For a training loop of one's own: ``run = lightwork.connect()``, see :class:`lightwork.Run`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightwork.api import Run, SharedLoader, connect
    from lightwork.errors import (
        DataError,
        LaunchError,
        LightworkError,
        PeerLostError,
        RunError,
        StepError,
    )

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "LaunchError",
    "LightworkError",
    "PeerLostError",
    "Run",
    "RunError",
    "SharedLoader",
    "StepError",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import lightwork`` alone imports no torch."""
    if name not in __all__:
        raise AttributeError(f"module 'lightwork' has no attribute {name!r}")
    module = "lightwork.errors" if name.endswith("Error") else "lightwork.api"
    return getattr(import_module(module), name)
