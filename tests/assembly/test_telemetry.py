"""A rank on a card is sampled with that card."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lightwork.assembly import training
from lightwork.settings import load_settings
from lightwork.telemetry import sampling
from tests.telemetry.test_cards import OURS, PROPERTIES, FakeNvml


@pytest.mark.parametrize(("device", "temperature_c"), [("cuda:1", 71), ("cpu", None)])
def test_the_card_of_the_rank_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, temperature_c: int | None
) -> None:
    asked = []

    def properties(of: torch.device) -> Any:
        asked.append(str(of))
        return PROPERTIES

    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(OURS))
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(sampling.Sampler.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(training, "total_bytes", lambda *_: None)
    given = ["data.train=x", "model.source=scratch", "telemetry.sinks=[]"]
    start: Any = SimpleNamespace(
        group=SimpleNamespace(rank=1),
        world=SimpleNamespace(device=device, local_size=2),
        settings=load_settings(None, given),
        folder=tmp_path,
        record=SimpleNamespace(run_id="run-7", attempts=1),
    )
    ready: Any = SimpleNamespace(done_steps=0, schedule=SimpleNamespace(total_steps=9))
    with training._telemetry(start, ready) as telemetry:
        assert telemetry.sampler.sample().card_temperature_c == temperature_c
    assert asked == ([device] if device != "cpu" else [])
