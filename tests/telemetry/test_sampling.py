"""Samples of processor and card: by the clock, and true."""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest

from lightwork.telemetry import sampling
from lightwork.telemetry.cards import Card
from lightwork.telemetry.records import NOT_SAMPLED
from lightwork.telemetry.sampling import Sampler


class Always(Card):
    """A card that says the same whenever it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def read(self) -> dict[str, Any]:
        self.asked += 1
        return {"card_temperature_c": 60 + self.asked}


def test_samples_are_taken_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    card, now = Always(), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    sampler = Sampler(card, every_s=1.0)
    found = []
    for _ in range(25):  # steps of 0.1 s
        now[0] += 0.1
        found.append(sampler.sample())
    taken = [sample for sample in found if sample is not NOT_SAMPLED]
    assert card.asked == len(taken) == 2
    assert [sample.card_temperature_c for sample in taken] == [61, 62]


def test_processor_and_preemptions_are_rates_since_the_last_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usages = iter(
        sampling._Usage(at_s, cpu_s, preemptions)
        for at_s, cpu_s, preemptions in ((0.0, 5.0, 10), (2.0, 8.0, 30), (4.0, 8.5, 30))
    )
    monkeypatch.setattr(sampling, "_usage", lambda: next(usages))
    sampler = Sampler(None)
    busy, idle = sampler.sample(), sampler.sample()
    assert (busy.cpu_percent, busy.preemptions_per_s) == (150.0, 10.0)
    assert (idle.cpu_percent, idle.preemptions_per_s) == (25.0, 0.0)
    assert busy.card_temperature_c is None


def test_the_processor_time_of_this_process_is_what_it_used() -> None:
    sampler, began_s, used_s = Sampler(None, every_s=0.0), time.monotonic(), time.process_time()
    while time.process_time() - used_s < 0.3:
        pass
    sample = sampler.sample()
    used = 100 * (time.process_time() - used_s) / (time.monotonic() - began_s)
    assert sample.cpu_percent == pytest.approx(used, rel=0.2)
    assert sample.machine_cpu_percent is not None
    assert 0 < sample.machine_cpu_percent <= 100


def test_a_machine_that_hides_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(interval: float | None) -> float:
        raise PermissionError(13, "Permission denied", "/proc/stat")

    monkeypatch.setattr(psutil, "cpu_percent", hidden)
    sample = Sampler(None, every_s=0.0).sample()
    assert sample.machine_cpu_percent is None
    assert sample.cpu_percent is not None
