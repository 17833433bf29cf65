"""What ranks that are processes do in the tests; called by ``tests.ranks.run_as_processes``."""

from __future__ import annotations

import io
import logging
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import nn

import lightwork


def script(path: str, *arguments: str) -> str:
    """Run a script as if it was started by itself; returns what it printed."""
    sys.argv = [path, *arguments]
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(path, run_name="__main__")
    return printed.getvalue()


def facts() -> dict[str, Any]:
    """What a few moments with a Run are like, for the test to judge."""
    warnings: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("lightwork").addHandler(handler)
    run = lightwork.connect(threads=1)
    torch.manual_seed(11 + run.rank)  # the heads differ, and so does everything drawn later
    head = nn.Linear(4, 2)
    before = head.weight.tolist()
    torch.manual_seed(3)
    model = run.replicate(nn.Sequential(nn.Dropout(0.5), head))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found: dict[str, Any] = {"before": before, "after": head.weight.tolist()}
    found["first_draw"] = torch.rand(3).tolist()
    found["masks"], found["warned"] = [], []
    for seed in (None, 5, 5):
        if seed is not None:
            torch.manual_seed(seed)
        run.backward(model(torch.ones(1, 4)).sum(), 1)
        run.step(optimizer)
        found["masks"].append(torch.nn.functional.dropout(torch.ones(16)).tolist())
        found["warned"].append(sum("run.share" not in text for text in warnings))
    model.eval()
    torch.manual_seed(8)
    run.backward(model(torch.ones(1, 4)).sum(), 1)
    found["seed"] = torch.initial_seed()
    found["gathered"] = run.gather([{"rank": run.rank}] * run.rank)
    found["place"] = [run.rank, run.ranks, run.is_first, str(run.device)]
    try:
        lightwork.connect()
    except lightwork.LaunchError as error:
        found["again"] = str(error)
    run.close()
    return found


def save_fails(folder: str) -> str:
    """Rank 0 cannot write; every rank says why."""
    run = lightwork.connect(threads=1)
    (Path(folder) / "file").touch()
    try:
        run.save(Path(folder) / "file/out", lambda path: path.mkdir())
    except lightwork.RunError as error:
        return str(error)
    return "nothing failed"
