"""One start of a run begins: alone in its folder, counted, and the same to all ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from lightwork.comm.group import Group
from lightwork.comm.world import usable_cores
from lightwork.disk import try_lock
from lightwork.errors import LaunchError, RunError
from lightwork.settings import RunRecord, Settings, identity, open_run, run_id_of, write_run
from lightwork.train.precision import chosen

LOCK_TRIES = 5
"""One who lists runs may hold a folder's lock for an instant."""

STORAGE_PATIENCE_S = 10.0
"""How long a network file system may take to show one machine what another has written."""


@contextmanager
def only_training(run: Path) -> Iterator[None]:
    """Hold the run folder; the system lets go of it when the process ends, however it ends."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / ".lock").open("a") as file:
        for _ in range(LOCK_TRIES):
            if try_lock(file):
                break
            time.sleep(0.05)
        else:
            raise RunError(
                f"the run folder {run} is in use by another training; wait for it, stop it, or "
                "choose another folder with --run"
            )
        yield


def begin(group: Group, settings: Settings, run: Path, device: str) -> RunRecord:
    """Count this start in the run's record, and give all ranks the record of rank 0."""
    values = identity(settings)
    precision = chosen(group, settings.train.precision, device)
    record = None
    if group.rank == 0:
        record = open_run(run, settings)
        shares = record.shares or _shares(settings, group.size)
        threads = _threads(settings, record.threads, shares)
        if settings.train.precision == "auto" and record.attempts:
            precision = record.precision or "fp32"  # as every version before computed
        record = replace(record, shares=shares, threads=threads, attempts=record.attempts + 1)
        record = replace(record, precision=precision)
        write_run(run, record)
    told = group.gather_json({"record": record and asdict(record), "identity": values})
    for rank, other in enumerate(told):
        if other["identity"] != told[0]["identity"]:
            raise LaunchError(
                f"rank {rank} was started with other settings or data than rank 0; all ranks "
                "need the same"
            )
    return RunRecord(**told[0]["record"])


def check_storage(group: Group, run: Path, run_id: str) -> None:
    """LaunchError on all ranks where one of them does not see the folder that rank 0 writes to."""
    deadline_s = time.monotonic() + STORAGE_PATIENCE_S
    seen = run_id_of(run)
    while seen != run_id and time.monotonic() < deadline_s:
        time.sleep(0.2)
        seen = run_id_of(run)
    blind = [rank for rank, other in enumerate(group.gather_json(seen)) if other != run_id]
    if blind:
        raise LaunchError(
            f"rank {blind[0]} does not find the run folder {run} as rank 0 has just written it; on "
            "several machines it must lie on storage that all of them share: name one with --run"
        )


def _shares(settings: Settings, ranks: int) -> int:
    return ranks if settings.train.shares == "auto" else settings.train.shares


def _threads(settings: Settings, recorded: int | None, shares: int) -> int | None:
    """Compute threads of every rank; None where each machine divides its cores by its ranks.

    How many threads add up a long sum shows in its last bits, so with the tree ``auto`` is what it
    would be with a rank for every share, and stays that on another machine.
    """
    if settings.sync.strategy != "tree":
        return None
    if settings.launch.threads != "auto":
        return settings.launch.threads
    return recorded or max(1, usable_cores() // shares)
