"""What ranks do in the tests of ``benchmarks.steps``; called by ``tests.ranks``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.stepping import Lane, Request, make_lanes
from lightwork.assembly.training import started
from lightwork.comm.group import Group
from lightwork.settings import load_settings

STEPS = 3


def learn(settings: str, run: str, *names: str) -> dict[str, Any]:
    """Each contender does some steps, with and without clipping, and ``none`` some at last.

    Returns, for each, this rank's weights and the windows it learned from.
    """
    found: dict[str, Any] = {}
    with started(load_settings(Path(settings)), Path(run)) as start:
        for norm in ("0.5", "null"):
            overrides = [f"train.max_grad_norm={norm}"]
            request = Request(settings, overrides, run, list(names), 8, 2, 1, 1, "")
            for name, lane in zip(names, make_lanes(start, request), strict=True):
                found[f"{name} {norm}"] = _stepped(lane)
        (lane,) = make_lanes(start, Request(settings, [], run, ["none"], 8, 2, 1, 1, ""))
        _forbid(start.group)
        found["none"] = _stepped(lane)
    return found


def _stepped(lane: Lane) -> dict[str, Any]:
    windows = []
    for _ in range(STEPS):
        work = next(lane.works)
        windows.append([work.batch_windows, sorted(work.windows)])
        lane.step(work)
    weights = torch.cat([p.detach().reshape(-1) for p in lane.module.parameters()])
    return {"weights": weights.tolist(), "windows": windows}


def _forbid(group: Group) -> None:
    """Every message of this rank is an error from now on."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a message was sent")

    for verb in ("all_reduce", "all_gather", "broadcast", "exchange", "gather_json"):
        setattr(group, verb, refused)
