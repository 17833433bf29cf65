"""Models that point at the first and the last token of an answer."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForQuestionAnswering, BertConfig

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.attention import check_attention
from lightwork.tasks.extractive.pretrained import (
    SCRATCH,
    from_library,
    quietly,
    resolve_source,
)
from lightwork.tasks.extractive.tokenizer import load_tokenizer, train_tokenizer
from lightwork.tasks.extractive.wrapped import without_wrapper

__all__ = [
    "ScratchShape",
    "build_model",
    "check_length",
    "freeze",
    "load_tokenizer",
    "longest_input",
    "resolve_source",
    "save_model",
    "train_tokenizer",
]

logger = logging.getLogger(__name__)

POSITION_TABLES = ("position_embeddings", "embed_positions", "wpe")
"""What the table of learned positions is called in the models of transformers."""


@dataclass(frozen=True)
class ScratchShape:
    """The small BERT that ``scratch`` stands for."""

    layers: int = 2
    hidden: int = 128
    heads: int = 2
    intermediate: int = 512
    positions: int = 512


def build_model(
    source: str,
    *,
    dropout: float | None,
    weights: bool,
    scratch: ScratchShape,
    vocabulary: int,
    attention: str = "auto",
) -> nn.Module:
    """A float32 ``AutoModelForQuestionAnswering`` for ``source``.

    ``dropout`` replaces every dropout probability of the configuration. Without ``weights`` the
    model is made from the configuration alone, for ranks that receive the weights of another.
    ``vocabulary`` is the number of ids of the tokenizer. ``attention`` is how it is computed, see
    ``attention.check_attention``; it is not saved with the model. What is new in the model draws
    from torch's global random state. Raises ``SettingsError`` when the source is no such model, its
    weights do not fit, it has fewer embeddings than the tokenizer has ids, or it cannot compute
    attention like this.
    """
    place = resolve_source(source)
    config = _scratch_config(scratch, vocabulary) if source == SCRATCH else _config(source, place)
    if dropout is not None:
        _set_dropout(config, dropout)
    check_attention(config, attention)
    chosen = {} if attention == "auto" else {"attn_implementation": attention}
    with from_library(source, "model"):
        if weights and source != SCRATCH:
            model = _pretrained(source, place, config, chosen)
        else:
            model = AutoModelForQuestionAnswering.from_config(config, **chosen)
    # Checkpoints may be stored in half precision; precision is chosen by training, not here.
    module: nn.Module = model.float()
    _write_nothing(model.base_model)
    known = model.get_input_embeddings().num_embeddings
    if vocabulary > known:
        raise SettingsError(
            f"model.source {source!r}: the tokenizer has {vocabulary} ids but the model only "
            f"{known} embeddings; they do not belong together"
        )
    return module


def _config(source: str, place: str) -> Any:
    with from_library(source, "configuration"):
        return AutoConfig.from_pretrained(place, num_labels=2, trust_remote_code=False)


def _write_nothing(backbone: nn.Module) -> None:
    """Decoders keep keys and values for the next word they write; here there is none.

    They would only take memory, and a block that is computed again in backward would find them
    and add its own a second time. The configuration stays as it is: it is saved with the model.
    """

    def without_cache(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**kwargs, "use_cache": False}

    if "use_cache" in inspect.signature(backbone.forward).parameters:
        backbone.register_forward_pre_hook(without_cache, with_kwargs=True)


def _scratch_config(shape: ScratchShape, vocabulary: int) -> Any:
    if shape.hidden % shape.heads:
        raise SettingsError(
            f"a hidden size of {shape.hidden} cannot be divided among {shape.heads} attention "
            "heads; make it a multiple"
        )
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=shape.positions,
    )


def _set_dropout(config: Any, dropout: float) -> None:
    """BERT says ``hidden_dropout_prob``, GPT-2 ``resid_pdrop``; layer drop is something else."""
    for name, value in config.to_dict().items():
        is_probability = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_probability and ("dropout" in name or name.endswith("pdrop")):
            setattr(config, name, dropout)


def _pretrained(source: str, place: str, config: Any, chosen: dict[str, str]) -> Any:
    with without_wrapper(place) as folder:
        model, info = AutoModelForQuestionAnswering.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **chosen,
        )
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    encoder = model.base_model
    prefix = f"{model.base_model_prefix}."
    lost = [key for key in missing if key.startswith(prefix) and "pooler" not in key]
    parts = {name for name, _ in encoder.named_children()}
    left = [key for key in unexpected if _part(key, prefix) in parts and _is_weight(key)]
    if lost or left:
        told = [*(f"missing {key}" for key in lost), *(f"unexpected {key}" for key in left)]
        more = f" and {len(told) - 4} more" if len(told) > 4 else ""
        raise SettingsError(
            f"model.source {source!r}: the weights do not fit the configuration: "
            f"{', '.join(told[:4])}{more}; this file belongs to another model"
        )
    head = [key for key in missing if not key.startswith(prefix)]
    if head:
        logger.info("%s brings no answer head: %s are new and random", source, ", ".join(head))
    return model


def save_model(
    model: Any, tokenizer: Any, folder: Path, weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write a folder that ``from_pretrained`` opens, with its tokenizer.

    ``weights``: a copy of the model's state, to be written in its place.
    """
    with quietly():
        model.save_pretrained(folder, state_dict=None if weights is None else dict(weights))
        tokenizer.save_pretrained(folder)


def freeze(model: Any, what: Literal["none", "embeddings", "encoder"]) -> None:
    """Let the embeddings, or all but the answer head, keep their weights.

    Frozen parameters get no gradient, so they are neither summed over the ranks nor given a place
    in the optimizer. Embeddings are those of words, places and types with the norm behind them.
    """
    encoder = model.base_model
    if what == "encoder":
        frozen = [encoder]
    elif what == "embeddings":
        named = [part for name, part in encoder.named_children() if name == "embeddings"]
        frozen = named or [model.get_input_embeddings()]
    else:
        frozen = []
    for part in frozen:
        part.requires_grad_(False)


def _part(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).split(".")[0]


def _is_weight(key: str) -> bool:
    """Poolers are not used, and old files carry position numbers as if they were weights."""
    return "pooler" not in key and not key.endswith("position_ids")


def longest_input(model: nn.Module) -> int | None:
    """Tokens the model has learned places for; None when positions are computed or relative.

    RoBERTa and its kin count positions from behind the padding id, BART from an offset, so a few
    of the places are never used.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in POSITION_TABLES:
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return int(module.num_embeddings - getattr(module, "offset", first))
    return None


def check_length(model: nn.Module, max_length: int) -> None:
    """Raise ``SettingsError`` when windows can be longer than the model has positions for."""
    longest = longest_input(model)
    if longest is not None and max_length > longest:
        raise SettingsError(
            f"data.max_length {max_length} is more than the {longest} tokens this model has "
            "positions for; lower data.max_length or take another model"
        )
