"""How attention is computed: what a model and this machine can do of it."""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForQuestionAnswering
from transformers.utils.import_utils import is_flash_attn_2_available

from lightwork.errors import SettingsError

FLASH = "flash_attention_2"

_MARKS: dict[str, tuple[str, ...]] = {
    "eager": (),
    "sdpa": ("_supports_sdpa",),
    FLASH: ("_supports_flash_attn", "_supports_flash_attn_2"),
}
"""By which a class of transformers, of one version or another, says that it knows an attention."""


def check_attention(config: Any, attention: str) -> None:
    """Raise SettingsError where a model of this configuration cannot compute ``attention``.

    That is ``eager`` (written out), ``sdpa`` (PyTorch chooses a kernel), ``flash_attention_2``
    (the package flash-attn), or ``auto``: whatever transformers chooses.
    """
    kind: Any = AutoModelForQuestionAnswering._model_mapping.get(type(config), None)
    if attention == "auto" or kind is None:  # the library says what is wrong with another model
        return
    # Where the package is missing, transformers may fetch a kernel from the hub and run it.
    absent = () if is_flash_attn_2_available() else (FLASH,)
    possible = [
        name
        for name, marks in _MARKS.items()
        if name not in absent and (not marks or any(getattr(kind, mark, False) for mark in marks))
    ]
    if attention not in possible:
        needs = ", which needs a CUDA device and the package flash-attn" * (attention in absent)
        raise SettingsError(
            f"model.attention is {attention}{needs}: {kind.__name__} cannot do that here. Set it "
            f"to {', '.join(['auto', *possible[:-1]])} or {possible[-1]}"
        )
