"""Cards are found by what is printed into them, and whatever they do not tell stops nothing."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lightwork.telemetry import cards
from lightwork.telemetry.cards import REASONS, open_card, words_of
from lightwork.telemetry.records import Sample

UUID = "c8ac2dd2-53f5-ef2c-bb7b-6e26f5b4b3f1"
BUS = "00000000:41:00.0"


class NVMLError(Exception):
    """As the real package raises it."""


class FakeNvml:
    """The part of ``pynvml`` that is used: a machine with two cards, the second of which is ours.

    ``refused``: what the driver does not tell, and with which words.
    """

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __init__(self, known: dict[str, str], **refused: str) -> None:
        self._known, self.refused, self.calls = known, refused, 0

    def _answer(self, name: str, value: Any) -> Any:
        self.calls += 1
        if name in self.refused:
            raise NVMLError(self.refused[name])
        return value

    def nvmlInit(self) -> None:  # noqa: N802 - so it is called
        self._answer("init", None)

    def _found(self, name: str) -> str:
        if name not in self._known:
            raise NVMLError("Not Found")
        return self._known[name]

    nvmlDeviceGetHandleByUUID = nvmlDeviceGetHandleByPciBusId = _found  # noqa: N815

    def nvmlDeviceGetUtilizationRates(self, card: str) -> Any:  # noqa: N802
        assert card == "ours"
        return self._answer("load", SimpleNamespace(gpu=97, memory=40))

    def nvmlDeviceGetTemperature(self, card: str, sensor: int) -> int:  # noqa: N802
        assert (card, sensor) == ("ours", 0)
        return int(self._answer("temperature", 71))

    def nvmlDeviceGetClockInfo(self, card: str, kind: int) -> int:  # noqa: N802
        assert (card, kind) == ("ours", 1)
        return int(self._answer("clock", 1095))

    def nvmlDeviceGetPowerUsage(self, card: str) -> int:  # noqa: N802
        return int(self._answer("power", 349_500))

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: str) -> int:  # noqa: N802
        return int(self._answer("reasons", 0x21))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: str) -> int:  # noqa: N802
        return int(self._answer("old_reasons", 0x4))


WHOLE = {
    "card_busy_percent": 97, "card_temperature_c": 71, "card_clock_mhz": 1095,
    "card_power_w": 349.5, "card_throttled": ["thermal"],
}  # fmt: skip
OURS = {"GPU-other": "other", f"GPU-{UUID}": "ours"}
PROPERTIES = SimpleNamespace(uuid=UUID, pci_domain_id=0, pci_bus_id=0x41, pci_device_id=0)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="lightwork")
    return caplog


def use(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml | None) -> None:
    """None: the package is not installed."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


@pytest.mark.parametrize(
    "known",
    [OURS, {f"MIG-{UUID}": "ours"}, {BUS: "ours"}],
    ids=["card", "slice of a card", "place on the bus"],
)
def test_the_card_is_found_whatever_is_visible(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    use(monkeypatch, FakeNvml(known))
    card = open_card(PROPERTIES)
    assert card is not None
    assert card.read() == WHOLE
    assert Sample(**card.read()).card_throttled == ["thermal"]


def test_an_older_driver_has_another_name_for_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeNvml(OURS, reasons="Function Not Found"))
    card = open_card(PROPERTIES)
    assert card is not None
    assert card.read()["card_throttled"] == ["power cap"]


def test_what_is_not_told_is_null_and_said_once(
    monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    nvml = FakeNvml(OURS, load="Not Supported", power="Insufficient Permissions")
    use(monkeypatch, nvml)
    card = open_card(PROPERTIES)
    assert card is not None
    for _ in range(3):
        assert card.read() == {**WHOLE, "card_busy_percent": None, "card_power_w": None}
    nvml.refused["temperature"] = "GPU is lost"
    assert card.read()["card_temperature_c"] is None
    assert said.messages == [
        "the card does not tell everything: null is card_busy_percent (Not Supported), "
        "card_power_w (Insufficient Permissions)"
    ]


@pytest.mark.parametrize(
    ("nvml", "words"),
    [
        (None, "import of pynvml halted"),
        (FakeNvml(OURS, init="Driver Not Loaded"), "Driver Not Loaded"),
        (FakeNvml({"GPU-other": "other"}), "Not Found"),
    ],
    ids=["no package", "no driver", "no such card"],
)
def test_without_a_card_that_can_be_asked_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
    said: pytest.LogCaptureFixture,
    nvml: FakeNvml | None,
    words: str,
) -> None:
    use(monkeypatch, nvml)
    assert open_card(PROPERTIES) is None
    (line,) = said.messages
    assert line.startswith("temperature, clock and load of the card are not recorded: ")
    assert words in line


def test_reasons_in_words() -> None:
    assert words_of(0) == []
    assert words_of(0x1) == [], "an idle card is held back by nothing"
    assert words_of(0x48) == ["hardware slowdown", "hardware thermal"]
    assert words_of(0x10004) == ["power cap", "0x10000"], "of a driver newer than this list"


def test_the_real_package_has_all_that_is_asked() -> None:
    pynvml = pytest.importorskip("pynvml")
    used = [name for name in vars(FakeNvml) if name.startswith(("nvml", "NVML"))]
    assert [name for name in used if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_CLOCK_SM == FakeNvml.NVML_CLOCK_SM
    known = {
        value: name.removeprefix("nvmlClocksThrottleReason")
        for name, value in vars(pynvml).items()
        if name.startswith("nvmlClocksThrottleReason") and name[-3:] not in ("All", "one")
    }
    assert set(known) == {0x1, *REASONS}
    assert known[0x20] == "SwThermalSlowdown"
    assert known[0x80] == "HwPowerBrakeSlowdown"


@pytest.mark.gpu
def test_a_real_card_tells() -> None:
    card = cards.open_card(torch.cuda.get_device_properties(0))
    assert card is not None
    values = card.read()
    assert set(values) == set(WHOLE)
    assert 0 < values["card_temperature_c"] < 120
    assert values["card_clock_mhz"] > 100
