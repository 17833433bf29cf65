"""Which parameter holds the words, in every family, and that only rows of read words learn."""

from __future__ import annotations

import pytest
import torch

from lightwork.tasks.extractive.model import freeze, word_table
from tests.tasks.families import FAMILIES, batch, family, logits

SHARED = {"bart"}
"""Encoder and decoder read from one table, the decoder other words than the encoder."""


@pytest.mark.parametrize("kind", FAMILIES)
def test_only_rows_of_words_that_were_read_get_a_gradient(kind: str) -> None:
    model = family(kind).train()
    name = word_table(model)
    assert (name is None) == (kind in SHARED)
    if name is None:
        return
    inputs = batch(2, 8)
    logits(model, inputs).square().sum().backward()
    gradient = model.get_parameter(name).grad
    read = inputs["input_ids"].unique()
    assert gradient[read].any()
    assert len(read) < len(gradient)
    gradient[read] = 0
    assert not gradient.any()


def test_a_table_that_does_not_learn_or_is_scaled_is_none() -> None:
    frozen = family("bert")
    freeze(frozen, "embeddings")
    assert word_table(frozen) is None
    scaled = family("bert")
    scaled.get_input_embeddings().max_norm = 1.0
    assert word_table(scaled) is None


def test_a_table_with_a_second_use_is_none() -> None:
    model = family("bert")
    model.tied = torch.nn.Linear(16, 40, bias=False)
    model.tied.weight = model.get_input_embeddings().weight
    assert word_table(model) is None
