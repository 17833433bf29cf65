"""The small world of whole runs, verified in a process per rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ranks import run_as_processes
from tests.runs.conftest import World
from tests.verify.programs import Rows

Verified = Callable[..., Rows]
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """One folder, so that data is prepared once."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def verified(world: World, tmp_path: Path) -> Verified:
    """``verified(ranks, "programs:verdicts", override, …)``: the rows, which all ranks agree on."""

    def run(ranks: int, function: str, *overrides: str) -> Rows:
        file, _, name = function.partition(":")
        arguments = (str(world.settings), str(tmp_path / "run"), "model.dropout=0.1", *overrides)
        place = f"{HERE / file}.py:{name}"
        told = run_as_processes(ranks, place, *arguments, timeout_s=180, join=False)
        assert all(rows == told[0] for rows in told)
        rows: Rows = told[0]
        return rows

    return run
