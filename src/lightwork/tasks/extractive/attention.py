"""How attention is computed: what a model can do of it.

The package flash-attn is no choice: it cannot compute in float32, as scores are, and PyTorch's own
``sdpa`` has kernels of that kind.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForQuestionAnswering

from lightwork.errors import SettingsError


def check_attention(config: Any, attention: str) -> None:
    """Raise SettingsError where a model of this configuration cannot compute ``attention``.

    That is ``eager`` (written out), ``sdpa`` (PyTorch chooses a kernel), or ``auto``: whatever
    transformers chooses.
    """
    kind: Any = AutoModelForQuestionAnswering._model_mapping.get(type(config), None)
    # The library says what is wrong with another model.
    if attention == "sdpa" and kind is not None and not getattr(kind, "_supports_sdpa", False):
        raise SettingsError(
            f"model.attention is sdpa: {kind.__name__} cannot do that. Set it to auto or eager"
        )
