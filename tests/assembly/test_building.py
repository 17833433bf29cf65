"""A replica as the settings want it, and what is said, by all ranks alike, when it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lightwork.assembly import building
from lightwork.assembly.building import build_replica, check_finite
from lightwork.comm.group import Group
from lightwork.errors import SettingsError
from lightwork.settings import Settings, load_settings
from lightwork.tasks.extractive.model import build_model
from lightwork.tasks.extractive.task import ExtractiveTask
from tests.ranks import run_as_threads
from tests.tasks.families import batch, family, logits

SCRATCH = "data: {train: t.json}\nmodel: {source: scratch, scratch_width: 32}\n"
IDS = 64


def settings(folder: Path, *overrides: str) -> Settings:
    (folder / "s.yaml").write_text(SCRATCH)
    return load_settings(folder / "s.yaml", overrides)


def replica(given: Settings, group: Group | None = None) -> nn.Module:
    return build_replica(group or Group.alone(), given, "scratch", IDS, "cpu")


def refused(given: Settings, ranks: int = 2) -> str:
    """The one message of all ranks."""

    def tried(group: Group) -> str:
        with pytest.raises(SettingsError) as caught:
            replica(given, group)
        return str(caught.value)

    (message,) = set(run_as_threads(ranks, tried))
    assert "\n" not in message
    return message


@pytest.mark.parametrize("again", [True, False])
def test_blocks_are_computed_again_where_wanted(tmp_path: Path, again: bool) -> None:
    module = replica(settings(tmp_path, f"train.activation_checkpointing={again}"))
    calls: list[Any] = []
    inside = module.get_submodule("bert.encoder.layer.0.intermediate")
    inside.register_forward_hook(lambda *args: calls.append(args))
    logits(module.train(), batch()).sum().backward()
    assert len(calls) == 1 + again


@pytest.mark.parametrize("name", ["activation_checkpointing", "compile"])
def test_a_model_without_blocks_is_refused_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = settings(tmp_path, f"train.{name}=true")
    monkeypatch.setattr(ExtractiveTask, "blocks", staticmethod(lambda _: []))
    assert f"set train.{name}=false" in refused(given)


def test_what_one_rank_cannot_build_is_refused_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_rank_0_only(source: str, *, weights: bool, **rest: Any) -> nn.Module:
        if not weights:
            raise SettingsError("there is no such model here")
        return build_model(source, weights=weights, **rest)

    monkeypatch.setattr(building, "build_model", on_rank_0_only)
    assert refused(settings(tmp_path), 3) == "there is no such model here"


def test_attention_is_the_one_of_the_settings(tmp_path: Path) -> None:
    models: list[Any] = [
        replica(settings(tmp_path, f"model.attention={kind}")) for kind in ("auto", "eager", "sdpa")
    ]
    chosen = [model.config._attn_implementation for model in models]
    assert chosen == ["sdpa", "eager", "sdpa"]
    outputs = [logits(model.eval(), batch()) for model in models]
    assert torch.equal(outputs[0], outputs[2])
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)


def test_weights_that_are_no_numbers_are_refused_by_all(tmp_path: Path) -> None:
    model: Any = family("bert")
    with torch.no_grad():
        model.get_parameter("bert.embeddings.word_embeddings.weight")[3, 0] = float("inf")
    assert check(model) == (
        "the model there cannot be used: bert.embeddings.word_embeddings.weight holds values that "
        "are not finite numbers. Take another model, or another checkpoint of it"
    )
    assert check(family("bert")) is None


def check(model: Any) -> str | None:
    try:
        check_finite(model, "there")
    except SettingsError as error:
        return str(error)
    return None
