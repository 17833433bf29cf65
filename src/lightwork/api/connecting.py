"""Join the other ranks, stay until the process ends, and end well."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

import torch

from lightwork.api.run import Run
from lightwork.api.tables import check_rows
from lightwork.comm.parent import die_with_parent
from lightwork.comm.told import tell
from lightwork.comm.world import (
    World,
    bind_device,
    open_group,
    read_world,
    threads_per_rank,
    visible_gpus,
)
from lightwork.errors import LaunchError, LightworkError

CONNECTED = "LIGHTWORK_CONNECTED_PID"
"""Process and run id of the rank, so that what it starts does not take itself for that rank."""
_LIBRARIES = (Path(__file__).parents[1], Path(torch.__file__).parent)


def connect(
    timeout_s: float = 600.0,
    threads: int | None = None,
    bucket_bytes: int = 8 * 2**20,
    rows: Literal["auto", "on", "off"] = "auto",
) -> Run:
    """Make this process a rank: of ``lightwork launch``, of torchrun, or the only one.

    To be called once, near the top of the script, before anything touches CUDA. The connection is
    closed when the process ends. An exception that ends a rank also breaks its connections, so
    that the others end too; a LightworkError is then shown once, as one message.

    Args:
        timeout_s: how long a message waits for the slowest rank.
        threads: compute threads of this process; by default this machine's cores divided among
            its ranks, and as torch has it for a process alone.
        bucket_bytes: gradients travel in pieces of this size.
        rows: auto sends of a large ``torch.nn.Embedding`` only rows that some rank has looked up,
            where that pays; on: always, or says why not; off: never. The sums are the same.

    Raises:
        ValueError: ``rows`` is none of the three.
        LaunchError: the launcher's variables make no sense, there are fewer GPUs than ranks, or
            this process is connected already.
        PeerLostError: not all ranks came within ``timeout_s``.
    """
    check_rows(rows)
    _refuse_twice()
    die_with_parent(os.environ)
    closing = ExitStack()
    closing.enter_context(_Ending(closing))
    world = read_world(os.environ, visible_gpus())
    if threads is None and world.size > 1:
        threads = threads_per_rank(world)
    bind_device(world, threads)
    group = closing.enter_context(open_group(world, timeout_s))
    closing.enter_context(_Ending(closing))  # again: torch has put a hook of its own above it
    _mark(world, closing)
    atexit.register(closing.close)
    return Run(group, torch.device(world.device), bucket_bytes, closing, rows)


def _refuse_twice() -> None:
    pid, _, run_id = os.environ.get(CONNECTED, "").partition(" ")
    if pid == str(os.getpid()):
        raise LaunchError("lightwork.connect was called before in this process; call it once")
    if run_id and run_id == _run_id():
        raise LaunchError(
            f"lightwork.connect was called in a process that the rank with the id {pid} started, "
            "such as a worker of a DataLoader. Put the script's work in a function and call it "
            'under: if __name__ == "__main__":'
        )


def _run_id() -> str:
    """What the launcher calls this run; empty for a process alone."""
    return os.environ.get("LIGHTWORK_RUN_ID") or os.environ.get("TORCHELASTIC_RUN_ID", "")


def _mark(world: World, closing: ExitStack) -> None:
    os.environ[CONNECTED] = f"{os.getpid()} {_run_id()}"
    if world.size == 1:  # several ranks cannot meet again: their addresses are used up
        closing.callback(os.environ.pop, CONNECTED, None)


class _Ending:
    """While inside, an exception that ends the process also ends the connection."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing
        self._before = sys.excepthook

    def __enter__(self) -> None:
        sys.excepthook = self._end

    def __exit__(self, *_: object) -> None:
        if sys.excepthook == self._end:
            sys.excepthook = self._before

    def _end(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):  # a connection that will not close must not hide the reason
            self._closing.__exit__(kind, error, trace)  # breaks the group, waits for nobody
        if isinstance(error, KeyboardInterrupt):
            raise SystemExit(128 + signal.SIGINT)
        if not isinstance(error, LightworkError):
            self._before(kind, error, trace)
            return
        tell(f"error: {error}{_place(trace)}", os.environ, error.joint)
        raise SystemExit(error.exit_code)


def _place(trace: TracebackType | None) -> str:
    """The line of the script that led to an error."""
    for frame in reversed(traceback.extract_tb(trace)):
        path = Path(frame.filename)
        if not any(path.is_relative_to(library) for library in _LIBRARIES):
            return f" ({path.name}, line {frame.lineno})"
    return ""
