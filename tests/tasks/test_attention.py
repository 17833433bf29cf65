"""Which attention a model can compute, and that a saved model does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.attention import check_attention
from lightwork.tasks.extractive.model import ScratchShape, build_model
from tests.tasks.families import FAMILIES, IDS, batch, family, logits

SHAPE = ScratchShape()


def refusal(kind: str, wanted: str) -> str:
    with pytest.raises(SettingsError) as caught:
        check_attention(family(kind).config, wanted)
    return str(caught.value)


@pytest.mark.parametrize("kind", FAMILIES)
def test_whatever_is_not_refused_can_be_built(tmp_path: Path, kind: str) -> None:
    family(kind).save_pretrained(tmp_path)
    outputs = []
    for wanted in ("auto", "eager", "sdpa"):
        for weights in (True, False):
            try:
                check_attention(AutoConfig.from_pretrained(tmp_path), wanted)
            except SettingsError:
                assert wanted == "sdpa"
                assert family(kind).config._attn_implementation == "eager"
                continue
            model: Any = build_model(
                str(tmp_path), dropout=0.0, weights=weights, scratch=SHAPE, vocabulary=IDS,
                attention=wanted,
            )  # fmt: skip
            assert wanted in ("auto", model.config._attn_implementation)
            if weights:
                outputs.append(logits(model.eval(), batch()))
    assert len(outputs) >= 2
    for other in outputs[1:]:
        torch.testing.assert_close(outputs[0], other, rtol=1e-3, atol=1e-5)


def test_a_refusal_names_what_can_be_done() -> None:
    assert refusal("deberta-v2", "sdpa") == (
        "model.attention is sdpa: DebertaV2ForQuestionAnswering cannot do that. Set it to auto or "
        "eager"
    )


def test_a_model_that_cannot_is_not_built(tmp_path: Path) -> None:
    family("deberta-v2").save_pretrained(tmp_path)
    with pytest.raises(SettingsError, match="DebertaV2ForQuestionAnswering cannot do that"):
        build_model(
            str(tmp_path), dropout=None, weights=True, scratch=SHAPE, vocabulary=IDS,
            attention="sdpa",
        )  # fmt: skip


@pytest.mark.parametrize("wanted", ["eager", "sdpa"])
def test_a_saved_model_does_not_say_how_it_was_computed(tmp_path: Path, wanted: str) -> None:
    family("bert").save_pretrained(tmp_path / "before")
    given: dict[str, Any] = {"dropout": None, "weights": True, "scratch": SHAPE, "vocabulary": IDS}
    model: Any = build_model(str(tmp_path / "before"), **given, attention=wanted)
    model.save_pretrained(tmp_path / "after")
    before, after = ((tmp_path / name / "config.json").read_text() for name in ("before", "after"))
    assert after == before
    again: Any = build_model(str(tmp_path / "after"), **given)
    assert again.config._attn_implementation == "sdpa", "the choice of transformers"
