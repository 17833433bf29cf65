"""A script that fails: ``python failing.py MODE``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import lightwork


def main(mode: str) -> None:
    run = lightwork.connect()
    model = run.replicate(torch.nn.Linear(2, 1))
    bad = run.rank == run.ranks - 1
    if mode == "raises" and bad:
        run._group.all_reduce(torch.ones(1))  # under way until the other rank joins in
        raise ZeroDivisionError("in the last rank's own code")
    if mode == "raises":
        time.sleep(30)
        Path("survived").touch()
    (batch,) = run.share(DataLoader(torch.ones(3 * run.ranks, 2), 3 * run.ranks))  # type: ignore[arg-type]
    loss = model(batch).sum()
    if mode == "nan" and bad:
        loss = loss * float("nan")
    run.backward(loss, 3)


if __name__ == "__main__":
    main(sys.argv[1])
