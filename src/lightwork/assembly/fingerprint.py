"""What the last bits of a run depend on beside its identity: kept with every checkpoint.

With ``sync.strategy: tree`` the number of ranks is not among it. Everything here is: another number
of threads, another instruction set or another version of a library may add up in another order.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

from lightwork import __version__
from lightwork.comm.group import Group
from lightwork.data.loader import Cutting
from lightwork.settings import LONGER
from lightwork.telemetry.lines import open_lines
from lightwork.train.model import Model

log = logging.getLogger("lightwork")

Fingerprint = dict[str, Any]
LEDGER = "ledger.jsonl"
"""In the folder of a run: from which steps on its bits are others than they would have been, and
why."""

_CHOOSING_KERNELS = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
)
"""Environment variables by which libraries are told how to compute."""


def fingerprint(group: Group, model: Model, strategy: str, cutting: Cutting) -> Fingerprint:
    """That of all ranks together: a value for each name, or a list where ranks differ."""
    module = model.module
    own = {
        **_versions(),
        **_machine(next(module.parameters()).device),
        "dtype": sorted({str(p.dtype) for p in module.parameters()}),
        "precision": model.precision.name,
        "attention": getattr(module.config, "_attn_implementation", None),
        "strategy": strategy,
        **asdict(cutting),
    }
    told = group.gather_json(own)
    return {name: _united([other.get(name) for other in told]) for name in own}


def _united(values: list[Any]) -> Any:
    """The one value, or all there are in an order that is not that of the ranks."""
    different = {json.dumps(value, sort_keys=True): value for value in values}
    return values[0] if len(different) == 1 else [different[text] for text in sorted(different)]


def _versions() -> Fingerprint:
    return {
        "lightwork": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,
        "mkl": torch.backends.mkl.is_available(),
        "mkldnn": torch.backends.mkldnn.is_available(),
    }


def _machine(device: torch.device) -> Fingerprint:
    cuda = device.type == "cuda"
    cudnn: Any = torch.backends.cudnn
    return {
        "device": torch.cuda.get_device_name(device) if cuda else _cpu_name(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": _matmul_precision(device),
        "cudnn_deterministic": cuda and cudnn.deterministic,
        "cudnn_benchmark": cuda and cudnn.benchmark,
        "cudnn_precision": cudnn.conv.fp32_precision if cuda else None,
        "environment": {name: os.environ[name] for name in _CHOOSING_KERNELS if name in os.environ},
    }


def _matmul_precision(device: torch.device) -> str:
    """How float32 matrices are multiplied; "none" is PyTorch's own choice, which is float32."""
    backend: Any = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    return str(backend.matmul.fp32_precision)


def _cpu_name() -> str:
    """As the system names it: libraries choose their kernels by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def note_changes(run: Path, step: int, before: Fingerprint, now: Fingerprint) -> None:
    """Going on from ``step``: say and write down, once, why bits are no longer promised.

    Nothing is said where they were not promised before and are not now.
    """
    if "tree" not in (before.get("strategy"), now["strategy"]):
        return
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not changed:
        return
    shown = ", ".join(f"{name} {before.get(name)} became {now.get(name)}" for name in changed)
    log.warning(
        "from step %d on the bits are no longer those of an unchanged run: %s",
        step + 1,
        shown if before else f"step {step} was saved without a fingerprint",
    )
    for name in changed:
        entry = {"step": step + 1, "changed": name}
        write_down(run, {**entry, "from": before.get(name), "to": now.get(name)})


def note_longer(run: Path, step: int, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Going on from ``step``: say and write down that the run was made longer (``--extend``)."""
    for name in LONGER:
        old, new = before.get(name), now.get(name)
        if old != new:
            log.info("%s %s became %s: the learning rate follows the longer plan", name, old, new)
            write_down(run, {"step": step + 1, "changed": name, "from": old, "to": new})


def write_down(run: Path, entry: dict[str, Any]) -> None:
    """Add a line to the ledger of a run."""
    with open_lines(run / LEDGER) as file:
        file.write((json.dumps(entry, ensure_ascii=False) + "\n").encode())
