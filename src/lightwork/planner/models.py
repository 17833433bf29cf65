"""Which pretrained model to begin with, and what of it is on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.languages import CHINESE, ENGLISH
from lightwork.tasks.extractive.pretrained import SCRATCH, resolve_source

SINGLE_LANGUAGE = 0.9
"""Share of the texts from which on a model of that language is proposed."""

_OFFSET_POSITIONS = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "xmod", "mpnet")
"""Model types that count positions from behind the padding id."""


@dataclass(frozen=True)
class Known:
    """A well-known encoder with .safetensors weights and a fast tokenizer on the hub."""

    megabytes: int
    licence: str
    what: str

    @property
    def size(self) -> str:
        """What a download comes to, for people."""
        many = self.megabytes >= 1000
        return f"{self.megabytes / 1000:.1f} GB" if many else f"{self.megabytes} MB"


HUB = {
    "google-bert/bert-base-uncased": Known(440, "Apache-2.0", "the best known encoder for English"),
    "google-bert/bert-base-chinese": Known(412, "Apache-2.0", "the best known encoder for Chinese"),
    "FacebookAI/xlm-roberta-base": Known(1116, "MIT", "an encoder for about 100 languages"),
}
INSTEAD = {
    "google-bert/bert-base-uncased": "FacebookAI/roberta-base (MIT, 499 MB) is often better",
    "google-bert/bert-base-chinese": "google-bert/bert-base-multilingual-cased knows more scripts",
    "FacebookAI/xlm-roberta-base": "google-bert/bert-base-multilingual-cased is smaller (714 MB)",
}


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that decide how it is trained."""

    layers: int
    width: int
    heads: int
    parameters: int
    positions: int | None
    """Longest window; None where it is not known or not limited."""


BASE = ModelShape(layers=12, width=768, heads=12, parameters=110_000_000, positions=512)


@dataclass(frozen=True)
class ModelChoice:
    """A model to train, as far as it can be known without loading it."""

    source: str
    """As in ``model.source``; folders are absolute."""
    kind: str
    """``scratch``, ``local`` for a folder or package, ``cached`` or ``download`` for the hub."""
    shape: ModelShape
    tokenizer_folder: Path | None
    """Where its tokenizer can be opened without any network."""

    @property
    def known(self) -> Known | None:
        """What is known of a hub model, if it is one of those proposed here."""
        return HUB.get(self.source)


def advise(languages: Mapping[str, float]) -> str:
    """The hub name of a common first choice for texts in these ``languages``."""
    if languages.get(ENGLISH, 0) >= SINGLE_LANGUAGE:
        return "google-bert/bert-base-uncased"
    if languages.get(CHINESE, 0) >= SINGLE_LANGUAGE:
        return "google-bert/bert-base-chinese"
    return "FacebookAI/xlm-roberta-base"


def examine(source: str) -> ModelChoice:
    """What is on this machine of the model ``source``; never asks the network.

    ``source`` is a setting ``model.source`` with an absolute path where it is a folder. Raises
    SettingsError for one that cannot be a model.
    """
    place = resolve_source(source)
    if place == SCRATCH:
        return ModelChoice(source, SCRATCH, _scratch_shape(), None)
    folder = Path(place)
    if folder.is_absolute():
        return ModelChoice(source, "local", _shape(folder), folder)
    found = _cached(source, "tokenizer.json")
    has_weights = any(
        _cached(source, name) for name in ("model.safetensors", "model.safetensors.index.json")
    )
    config = _cached(source, "config.json")
    kind = "cached" if found and config and has_weights else "download"
    shape = BASE if config is None else _shape(config.parent)
    return ModelChoice(source, kind, shape, found.parent if found and config else None)


def _cached(name: str, file: str) -> Path | None:
    """The file of a hub model in the local cache."""
    try:
        path = try_to_load_from_cache(name, file)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise SettingsError(f"model.source {name!r} is no hub name: {reason}") from None
    return Path(path) if isinstance(path, str) else None


def _scratch_shape() -> ModelShape:
    """About the defaults of ``model.scratch_*``."""
    return ModelShape(layers=2, width=128, heads=4, parameters=1_500_000, positions=None)


def _shape(folder: Path) -> ModelShape:
    """From config.json; what it does not tell is as in a base model."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return BASE
    if not isinstance(config, dict):
        return BASE
    layers = _number(config, "num_hidden_layers", "n_layers", "n_layer") or BASE.layers
    width = _number(config, "hidden_size", "dim", "d_model", "n_embd") or BASE.width
    heads = _number(config, "num_attention_heads", "n_heads", "n_head") or BASE.heads
    vocabulary = _number(config, "vocab_size") or 30_000
    embedding = _number(config, "embedding_size") or width
    return ModelShape(
        layers=layers,
        width=width,
        heads=heads,
        parameters=vocabulary * embedding + layers * 12 * width * width,
        positions=_positions(config),
    )


def _positions(config: dict[str, Any]) -> int | None:
    positions = _number(config, "max_position_embeddings", "n_positions")
    if positions is None or config.get("position_embedding_type", "absolute") != "absolute":
        return None
    if config.get("model_type") in _OFFSET_POSITIONS:
        positions -= int(config.get("pad_token_id") or 0) + 1
    return positions


def _number(config: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
