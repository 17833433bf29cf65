"""What the card of a rank says of itself: load, temperature, clock, power, and what slows it down.

Read through NVML, NVIDIA's management library, which any user may ask. Whatever it answers, or does
not, training goes on: what cannot be read is None, and one line says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("lightwork")

REASONS = {
    0x002: "clock setting",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal",
    0x040: "hardware thermal",
    0x080: "power brake",
    0x100: "display clock",
    0x200: "board limit",
    0x400: "reliability",
}
"""Bit of NVML's ``nvmlClocksEventReasons`` -> words. Bit 1, "idle", holds nothing up."""
_IDLE = 0x001


def words_of(reasons: int) -> list[str]:
    """Why a clock is lower than it could be; empty where nothing holds it down."""
    found = [words for bit, words in REASONS.items() if reasons & bit]
    unknown = reasons & ~sum(REASONS) & ~_IDLE
    return [*found, hex(unknown)] if unknown else found


def _reasons(nvml: Any, handle: Any) -> list[str]:
    """By the name that drivers have for it now, or the one they had before."""
    try:
        return words_of(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except (AttributeError, nvml.NVMLError):
        return words_of(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "card_busy_percent": lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).gpu,
    "card_temperature_c": lambda nvml, card: nvml.nvmlDeviceGetTemperature(
        card, nvml.NVML_TEMPERATURE_GPU
    ),
    "card_clock_mhz": lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
    "card_power_w": lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card) / 1000,
    "card_throttled": _reasons,
}
"""Field of a sample -> how it is asked for."""


class Card:
    """One card, as NVML knows it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._told = False

    def read(self) -> dict[str, Any]:
        """Every field of :data:`QUESTIONS`; None for what the card or its driver does not tell."""
        values, refused = {}, []
        for name, ask in QUESTIONS.items():
            try:
                values[name] = ask(self._nvml, self._handle)
            except Exception as error:  # noqa: BLE001 - a driver's mood is not worth a run
                values[name] = None
                refused.append(f"{name} ({error})")
        if refused and not self._told:
            self._told = True
            log.info("the card does not tell everything: null is %s", ", ".join(refused))
        return values


def open_card(properties: Any) -> Card | None:
    """The card with these ``torch.cuda.get_device_properties``; None where NVML cannot be asked.

    It is found by what is printed into it, since NVML knows nothing of CUDA_VISIBLE_DEVICES.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        return Card(pynvml, _handle(pynvml, properties))
    except Exception as error:  # noqa: BLE001 - no package, no driver, another maker's card
        log.info("temperature, clock and load of the card are not recorded: %s", error)
        return None


def _handle(nvml: Any, properties: Any) -> Any:
    """By UUID, of a whole card or of a slice of one, and otherwise by the place on the bus."""
    for kind in ("GPU", "MIG"):
        try:
            return nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{properties.uuid}")
        except (AttributeError, nvml.NVMLError):
            continue
    place = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
    return nvml.nvmlDeviceGetHandleByPciBusId("{:08x}:{:02x}:{:02x}.0".format(*place))
