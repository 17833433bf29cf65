"""A Hugging Face folder with a model whose every answer is known beforehand, and a run of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForQuestionAnswering

from lightwork.tasks.extractive.model import save_model
from tests.tasks.made import word_tokenizer

FILLER = [f"w{number}" for number in range(400)]
Points = Mapping[str, tuple[float, float]]


def filler(first: int, count: int) -> str:
    """So many words that no question asks about."""
    return " ".join(FILLER[first : first + count])


def pointing_model(folder: Path, points: Points, *, positions: int = 48) -> Path:
    """A model without layers: each word has the start and end logit of ``points``, others -5.

    Words are what stands between blanks; "[CLS]" stands for no answer.
    """
    tokenizer = word_tokenizer([*FILLER, *points, "Who is it ?"])
    words = list(points)
    width = len(words) + 2
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=0,
        num_attention_heads=1,
        max_position_embeddings=positions,
    )
    model = BertForQuestionAnswering(config)
    embeddings, head = model.bert.embeddings, model.qa_outputs
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        embeddings.LayerNorm.weight.fill_(1)
        logits = torch.full((width, 2), -5.0)
        embeddings.word_embeddings.weight[:, 0] = 1
        for place, word in enumerate(words, start=1):
            token = tokenizer.convert_tokens_to_ids(word)
            embeddings.word_embeddings.weight[token] = torch.eye(width)[place]
            logits[place] = torch.tensor(points[word])
        # Unit vectors come out of the norm as a * unit - b; the head undoes both.
        normed = embeddings.LayerNorm(torch.eye(width))
        b = -normed[0, 1]
        a = normed[0, 0] + b
        head.weight.copy_((logits / a).T)
        head.bias.copy_(b * head.weight.sum(dim=1))
    save_model(model, tokenizer, folder)
    return folder


def says(folder: Path, **facts: Any) -> Path:
    """The model folder with a lightwork.json."""
    (folder / "lightwork.json").write_text(json.dumps(facts))
    return folder
