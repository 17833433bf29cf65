"""What a figure was measured on: it belongs beside every one."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

PACKAGES = ("lightwork", "torch", "transformers", "accelerate", "lightning-fabric", "numpy")


def machine() -> dict[str, str]:
    """The processor, its cores, the memory and how busy the machine is."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = named[0] if named else model
    gibibytes = psutil.virtual_memory().total / (1 << 30)
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "memory": f"{gibibytes:.0f} GiB",
        "system": platform.platform(terse=True),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
    }


def versions() -> dict[str, str]:
    """Of Python and of every package that takes part."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
