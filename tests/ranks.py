"""Run a function as several ranks: as threads of this process, or as processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.distributed import HashStore, TCPStore  # type: ignore[attr-defined]

from lightwork.comm.group import Group
from lightwork.comm.listener import LOOPBACK, listen, port_of
from lightwork.comm.world import open_group, read_world

Result = TypeVar("Result")


def run_as_threads(
    size: int, function: Callable[[Group], Result], timeout_s: float = 30.0
) -> list[Result]:
    """What ``function`` returns on each of ``size`` ranks, which are threads of this process.

    Threads share torch's random state, so nothing that draws numbers belongs here. The first
    exception of a rank is raised; the other ranks then fail at their next message.
    """
    loopback = "lo" if sys.platform == "linux" else "lo0"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)  # torch reads it when ranks connect
    store = HashStore()
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        group = Group.connect(store, rank, size, timeout_s)
        try:
            results[rank] = function(group)
        except BaseException as error:  # noqa: BLE001 - handed to the test, below
            errors.append(error)
            group.abort()
        finally:
            group.close()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 2 * timeout_s + 5
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    if len(results) < size:
        raise TimeoutError(f"only ranks {sorted(results)} of {size} ended in time")
    return [results[rank] for rank in range(size)]


def run_as_processes(
    size: int,
    function: str,
    *args: Any,
    timeout_s: float = 60.0,
    join: bool = True,
    patience_s: float = 0.0,
) -> list[Any]:
    """What a function returns on each of ``size`` ranks, which are processes.

    Args:
        size: number of ranks; each computes with one thread.
        function: ``/path/to/file.py:name``, called with the group and ``args``. What it takes and
            returns must be JSON.
        args: given to every rank.
        timeout_s: for the whole, and for each message.
        join: open the group and give it to the function; otherwise the function gets no group
            and finds the launcher's variables in its environment.
        patience_s: how long the others have to end by themselves after one has failed.

    Raises:
        RuntimeError: a rank failed; the message is its traceback.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lightwork.assembly", "transformers.models.bert.modeling_bert"])
    listener = listen()
    environ = {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port_of(listener)),
        "LIGHTWORK_RUN_ID": "test",
    }
    store = TCPStore(
        LOOPBACK,
        int(environ["MASTER_PORT"]),
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener,
    )
    pipes = [context.Pipe(duplex=False) for _ in range(size)]
    processes = [
        context.Process(
            target=_rank,
            args=(pipe[1], function, args, timeout_s if join else None),
            kwargs={"environ": {**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}},
            daemon=True,
        )
        for rank, pipe in enumerate(pipes)
    ]
    try:
        for process in processes:
            process.start()
        for pipe in pipes:
            pipe[1].close()
        return _collect([pipe[0] for pipe in pipes], timeout_s, patience_s)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe[0].close()
        del store


def _collect(pipes: list[Connection], timeout_s: float, patience_s: float) -> list[Any]:
    """The answer of every rank; the first failure is raised, after ``patience_s`` at the latest."""
    answers: dict[int, Any] = {}
    failure: str | None = None
    deadline = time.monotonic() + timeout_s
    while len(answers) < len(pipes) and (failure is None or time.monotonic() < deadline):
        waiting = {pipe: rank for rank, pipe in enumerate(pipes) if rank not in answers}
        ready = multiprocessing.connection.wait(
            list(waiting), max(0.0, deadline - time.monotonic())
        )
        if not ready and failure is not None:
            break
        if not ready:
            raise TimeoutError(f"ranks {sorted(waiting.values())} did not end in {timeout_s:g} s")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting[pipe]
            try:
                answer = json.loads(pipe.recv_bytes())
            except EOFError:
                answer = {"failure": "ended without a word"}
            if "failure" in answer and failure is None:
                failure = f"rank {rank}: {answer['failure']}"
                deadline = min(deadline, time.monotonic() + patience_s)
            answers[rank] = answer.get("result")
    if failure is not None:
        raise RuntimeError(failure)
    return [answers[rank] for rank in range(len(pipes))]


def _rank(
    pipe: Connection,
    function: str,
    args: tuple[Any, ...],
    timeout_s: float | None,
    environ: Mapping[str, str],
) -> None:
    try:
        path, _, name = function.rpartition(":")
        spec = spec_from_file_location(Path(path).stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.set_num_threads(1)
        if timeout_s is None:
            os.environ.update(environ)
            answer = {"result": getattr(module, name)(*args)}
        else:
            world = read_world(environ, visible_gpus=0)
            with open_group(world, timeout_s, environ) as group:
                answer = {"result": getattr(module, name)(group, *args)}
    except BaseException:  # noqa: BLE001 - the test shows it
        answer = {"failure": traceback.format_exc()}
    pipe.send_bytes(json.dumps(answer).encode())
