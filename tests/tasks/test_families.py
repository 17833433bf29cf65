"""Models of many families: their outputs, their places, their blocks, and what they must not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lightwork.tasks.extractive.model import longest_input, save_model
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.train.writer import HostCopies
from tests.tasks.families import FAMILIES, IDS, batch, family
from tests.tasks.made import build

blocks = ExtractiveTask.blocks


@pytest.mark.parametrize("kind", FAMILIES)
def test_other_families_give_span_logits_places_and_blocks(tmp_path: Path, kind: str) -> None:
    _, places, names = FAMILIES[kind]
    family(kind).save_pretrained(tmp_path)
    model = build(str(tmp_path), 0.0, ids=IDS)
    assert longest_input(model) == places
    task = ExtractiveTask(
        pad_id=0,
        pad_left=False,
        uses_type_ids=False,
        answering=Answering(n_best=2, max_answer_tokens=3, no_answer=False),
    )
    assert [type(layer).__name__ for layer in task.blocks(model)] == names
    outputs = task.forward(model.train(), batch())
    assert outputs.start_logits.shape == outputs.end_logits.shape == (2, 16)
    # Every dropout of the family is off: training mode draws nothing.
    assert torch.equal(task.forward(model, batch()).start_logits, outputs.start_logits)


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_block_takes_part_in_a_forward_in_their_order(kind: str) -> None:
    model = family(kind).eval()
    seen: list[nn.Module] = []
    for block in blocks(model):
        block.register_forward_pre_hook(lambda module, _: seen.append(module))
    model(**batch())
    assert list(dict.fromkeys(seen)) == blocks(model)
    calls = {"albert": 3}.get(kind, len(blocks(model)))  # one group of shared layers, three times
    assert len(seen) == calls


def test_a_layer_that_stands_at_several_places_is_one_block() -> None:
    layer = nn.Linear(2, 2)
    assert blocks(nn.Sequential(nn.ModuleList([layer, layer, nn.Linear(2, 2)])))[0] is layer
    assert len(blocks(nn.Sequential(nn.ModuleList([layer, layer])))) == 1


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_nothing_is_kept_for_a_next_word(tmp_path: Path, kind: str) -> None:
    family(kind).save_pretrained(tmp_path)
    model = build(str(tmp_path), ids=IDS)
    asked: list[Any] = []
    model.base_model.register_forward_hook(
        lambda _, args, kwargs, output: asked.append((kwargs["use_cache"], output)),
        with_kwargs=True,
    )
    model(**batch())
    ((use_cache, outputs),) = asked
    assert use_cache is False
    caches = [name for name in outputs if "cache" in name or "past" in name]
    assert not caches
    model.save_pretrained(tmp_path / "again")
    saved = (tmp_path / "again/config.json").read_text()
    assert saved == (tmp_path / "config.json").read_text()


class NoTokenizer:
    def save_pretrained(self, folder: Path) -> None:
        """Nothing to save."""


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_copy_of_the_state_is_saved_like_the_model_itself(tmp_path: Path, kind: str) -> None:
    """Also where names are tied, and when the model has changed meanwhile."""
    model, copies = family(kind), HostCopies()
    save_model(model, NoTokenizer(), tmp_path / "itself")
    copied = copies.take(model.state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    save_model(model, NoTokenizer(), tmp_path / "copied", copied)
    names = sorted(path.name for path in (tmp_path / "itself").iterdir())
    assert "model.safetensors" in names
    assert names == sorted(path.name for path in (tmp_path / "copied").iterdir())
    for name in names:
        ours, theirs = ((tmp_path / where / name).read_bytes() for where in ("copied", "itself"))
        assert ours == theirs, name
