"""Which models let their words travel row by row, in every family, and what sync.rows says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from lightwork.assembly.rows import tables_of, why_whole
from lightwork.comm.group import Group
from lightwork.errors import SettingsError
from lightwork.sync.tables import name_of
from lightwork.tasks.extractive.model import freeze
from tests.tasks.families import FAMILIES, batch, family, logits

SHARED = {"bart"}
"""Encoder and decoder read from one table, the decoder other words than the encoder."""


@pytest.mark.parametrize("kind", FAMILIES)
def test_only_rows_of_words_that_were_read_get_a_gradient(kind: str) -> None:
    model: Any = family(kind).train()
    reason = why_whole(model)
    assert (reason is not None) == (kind in SHARED)
    if reason is not None:
        return
    inputs = batch(2, 8)
    logits(model, inputs).square().sum().backward()
    gradient = model.get_parameter(name_of(model, model.get_input_embeddings())).grad
    read = inputs["input_ids"].unique()
    assert gradient[read].any()
    assert len(read) < len(gradient)
    gradient[read] = 0
    assert not gradient.any()


def frozen() -> Any:
    model = family("bert")
    freeze(model, "embeddings")
    return model


def scaled() -> Any:
    model: Any = family("bert")
    model.get_input_embeddings().max_norm = 1.0
    return model


def sparse() -> Any:
    model: Any = family("bert")
    model.get_input_embeddings().sparse = True
    return model


def tied() -> Any:
    model: Any = family("bert")
    model.head = torch.nn.Linear(16, 40, bias=False)
    model.head.weight = model.get_input_embeddings().weight
    return model


def twice() -> Any:
    model: Any = family("bert")
    model.decoder = torch.nn.ModuleDict({"words": model.get_input_embeddings()})
    return model


REASONS = [
    (frozen, "it does not learn"),
    (scaled, "max_norm changes its rows"),
    (sparse, "sparse=True makes gradients of another kind"),
    (tied, "its weight is also head.weight"),
    (twice, "it is read in two places"),
    (lambda: family("bart"), "it is a BartScaledWordEmbedding"),
]


@dataclass(frozen=True)
class _Asked:
    """What is read of the settings."""

    rows: str
    strategy: str = "tree"
    source: str = "here"

    @property
    def sync(self) -> _Asked:
        return self

    model = sync


def asked(rows: str, strategy: str = "tree") -> Any:
    return _Asked(rows, strategy)


@pytest.mark.parametrize(("made", "reason"), REASONS)
def test_on_says_why_it_is_not_possible_and_auto_sends_the_whole_table(
    made: Any, reason: str
) -> None:
    model = made()
    assert tables_of(Group.alone(), asked("auto"), model) == []
    with pytest.raises(SettingsError) as caught:
        tables_of(Group.alone(), asked("on"), model)
    message = str(caught.value)
    assert message.startswith("sync.rows is on, but the word embeddings of model.source 'here'")
    assert f"because {reason}" in message
    assert "set sync.rows=auto" in message


def test_on_auto_and_off() -> None:
    model = family("bert")
    found = {rows: tables_of(Group.alone(), asked(rows), model) for rows in ("on", "auto", "off")}
    assert [table.always for table in found["on"]] == [True]
    assert [table.always for table in found["auto"]] == [False]
    assert found["off"] == []
    assert tables_of(Group.alone(), asked("auto", "ddp"), model) == []
    for strategy in ("all_reduce", "ring"):
        assert tables_of(Group.alone(), asked("on", strategy), model) == [], "nothing travels"
