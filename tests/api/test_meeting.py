"""A rank that goes another way is named on all ranks, instead of mixing batches or hanging."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lightwork.api import Run
from lightwork.comm.group import Group
from lightwork.errors import StepError
from tests.api.loop import adam, loader, loss_of, net, run_of
from tests.ranks import run_as_threads


def diverging(group: Group, way: str, folder: Path) -> str:
    """Rank 1 does something else at its second batch; returns what is raised."""
    run, model = run_of(group), net()
    optimizer = adam(model)
    run.replicate(model)
    try:
        for number, rows in enumerate(run.share(loader(2)), 1):
            if run.rank == 1 and number == 2:
                if way == "skips":
                    continue
                _leave(run, way, folder)
            run.backward(*loss_of(model, rows))
            run.step(optimizer)
    except StepError as error:
        return str(error)
    return "nothing was noticed"


def _leave(run: Run, way: str, folder: Path) -> None:
    if way == "gathers":
        run.gather([1])
    if way == "saves":
        run.save(folder / "out", lambda path: path.write_text(""))
    if way == "begins again":
        next(iter(run.share(loader(2))))


@pytest.mark.parametrize(
    ("way", "place"),
    [
        ("skips", "rank 1 is at run.backward, batch 3"),
        ("gathers", "rank 1 is at run.gather, batch 2"),
        ("saves", "rank 1 is at run.save, batch 2"),
        ("begins again", "rank 1 is at the beginning of an epoch, batch 2"),
    ],
)
def test_ranks_that_go_different_ways(tmp_path: Path, way: str, place: str) -> None:
    told = run_as_threads(2, lambda group: diverging(group, way, tmp_path), timeout_s=10)
    assert told[0] == told[1]
    assert f"rank 0 is at run.backward, batch 2; {place}" in told[0]
    assert list(tmp_path.iterdir()) == []


def test_batches_that_nobody_shared_are_pointed_out_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def train(group: Group) -> None:
        run, model = run_of(group), net()
        run.replicate(model)
        optimizer = adam(model)
        for rows in loader(2):
            run.backward(*loss_of(model, rows))
            run.step(optimizer)

    with caplog.at_level(logging.WARNING, "lightwork"):
        run_as_threads(2, train)
    told = [r.getMessage() for r in caplog.records if "run.share" in r.getMessage()]
    assert len(told) == 1
    caplog.clear()
    run_as_threads(1, train)
    assert not caplog.records, "one rank may bring the whole batch"
