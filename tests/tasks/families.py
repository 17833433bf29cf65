"""One tiny model of every family whose layers lie somewhere else, or compute in another way."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForQuestionAnswering

IDS = 40
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SIZES: dict[str, Any] = {"vocab_size": IDS, "max_position_embeddings": 66}
BERT_LIKE: dict[str, Any] = {
    **SIZES,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
DROPPING = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
BART_LIKE: dict[str, Any] = {
    **SIZES,
    "d_model": 16,
    **{f"{half}_{what}": n for half in ("encoder", "decoder")
       for what, n in (("layers", 3), ("attention_heads", 2), ("ffn_dim", 32))},
}  # fmt: skip
FAMILIES: dict[str, tuple[dict[str, Any], int | None, list[str]]] = {
    "bert": (BERT_LIKE, 66, ["BertLayer"] * 3),
    "roberta": (BERT_LIKE, 64, ["RobertaLayer"] * 3),
    "electra": ({**BERT_LIKE, "embedding_size": 8}, 66, ["ElectraLayer"] * 3),
    "albert": ({**BERT_LIKE, **DROPPING, "embedding_size": 8}, 66, ["AlbertLayerGroup"]),
    "distilbert": (
        {**SIZES, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32},
        66,
        ["TransformerBlock"] * 3,
    ),
    "deberta-v2": (
        {**BERT_LIKE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        66,
        ["DebertaV2Layer"] * 3,
    ),
    "xlnet": (
        {"vocab_size": IDS, "d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 32},
        None,
        ["XLNetLayer"] * 3,
    ),
    "gpt2": (
        {"vocab_size": IDS, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 66},
        66,
        ["GPT2Block"] * 3,
    ),
    "bart": (BART_LIKE, 66, ["BartEncoderLayer"] * 3 + ["BartDecoderLayer"] * 3),
    "funnel": (
        {"vocab_size": IDS, "d_model": 16, "block_sizes": [2, 1], "num_decoder_layers": 1,
         "n_head": 2, "d_head": 8, "d_inner": 32},
        None,
        ["FunnelLayer"] * 4,
    ),
}  # fmt: skip
"""Sizes, places of a window, and the classes of the blocks."""


def family(kind: str) -> Any:
    """A model of this family with random weights, as transformers makes it."""
    config = AutoConfig.for_model(kind, **FAMILIES[kind][0], **SPECIAL)
    return AutoModelForQuestionAnswering.from_config(config)


def batch(windows: int = 2, tokens: int = 16) -> dict[str, torch.Tensor]:
    """Inputs of which the last window ends early."""
    ids = torch.arange(windows * tokens).view(windows, tokens) % (IDS - 3) + 3
    mask = torch.ones_like(ids)
    mask[-1, -3:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def logits(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Start and end logits, ``[2, windows, tokens]``."""
    outputs = model(**inputs)
    return torch.stack([outputs.start_logits, outputs.end_logits])
