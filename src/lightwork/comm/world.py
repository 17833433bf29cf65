"""From the environment that a launcher sets to a place among the ranks, and to a group of them.

Nothing here imports torch until a device is bound or a group is opened.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lightwork.comm.listener import LOOPBACK, listen
from lightwork.errors import LaunchError, PeerLostError

if TYPE_CHECKING:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    from lightwork.comm.group import Group


@dataclass(frozen=True)
class World:
    """This process among all ranks of the run."""

    rank: int
    size: int
    local_rank: int
    """Position among this machine's ranks, and of the device among the visible ones."""
    local_size: int
    """Ranks on this machine; the least it can be where the launcher does not say."""
    device: str
    """``cpu`` or ``cuda:<local_rank>``."""
    attempt: int
    """How often this run's processes were started before."""
    run_id: str
    launcher: Literal["single", "lightwork", "torchrun"]
    """``torchrun`` stands for everything that sets torchrun's variables."""
    started_s: float = field(default_factory=time.monotonic, compare=False)
    """When a person started all this, on this machine's monotonic clock, which its processes share;
    where the launcher does not say, when this process read its place."""


def read_world(
    environ: Mapping[str, str],
    visible_gpus: int,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> World:
    """Read the launcher's variables; without any, this is a single process.

    Raises:
        LaunchError: a variable is missing, not a number or out of range, or there are fewer GPUs
            than ranks on this machine. The message names the variable and its value.
    """
    if device == "cuda" and visible_gpus == 0:
        raise LaunchError("the device is to be cuda, but no GPU is visible; use cpu or auto")
    gpus = 0 if device == "cpu" else visible_gpus
    if not any(name in environ for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")):
        return World(0, 1, 0, 1, "cuda:0" if gpus else "cpu", 0, "", "single")
    size = _count(environ, "WORLD_SIZE", least=1)
    rank = _position(environ, "RANK", "WORLD_SIZE", size)
    local_rank = _count(environ, "LOCAL_RANK", least=0)
    local_size = _local_size(environ, local_rank)
    _check_sizes(local_rank, local_size, size)
    if gpus and local_size > gpus:
        raise LaunchError(
            f"{local_size} local processes but {gpus} visible devices (LOCAL_RANK={local_rank}, "
            f"CUDA_VISIBLE_DEVICES={environ.get('CUDA_VISIBLE_DEVICES', 'not set')}); start at "
            f"most {gpus} ranks on this machine, or run on cpu"
        )
    return World(
        rank,
        size,
        local_rank,
        local_size,
        f"cuda:{local_rank}" if gpus else "cpu",
        _attempt(environ),
        environ.get("LIGHTWORK_RUN_ID") or environ.get("TORCHELASTIC_RUN_ID", ""),
        "lightwork" if "LIGHTWORK_RUN_ID" in environ else "torchrun",
        float(environ.get("LIGHTWORK_STARTED_S", time.monotonic())),
    )


def _check_sizes(local_rank: int, local_size: int, size: int) -> None:
    if local_size > size:
        raise LaunchError(
            f"{local_size} local processes (LOCAL_RANK={local_rank}) but WORLD_SIZE={size}"
        )


def _local_size(environ: Mapping[str, str], local_rank: int) -> int:
    """Ranks on this machine; the least that ``LOCAL_RANK`` allows where nobody says."""
    if "LOCAL_WORLD_SIZE" not in environ:
        return local_rank + 1
    local_size = _count(environ, "LOCAL_WORLD_SIZE", least=1)
    _position(environ, "LOCAL_RANK", "LOCAL_WORLD_SIZE", local_size)
    return local_size


def visible_gpus() -> int:
    """GPUs this process may use. Imports torch only where the machine has a driver for some."""
    devices = Path("/dev")
    if sys.platform == "linux" and not (
        any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()
    ):
        return 0
    import torch

    return torch.cuda.device_count()


def threads_per_rank(world: World) -> int:
    """This machine's cores, as far as this process may use them, divided among its ranks."""
    return max(1, usable_cores() // world.local_size)


def usable_cores() -> int:
    """This machine's cores, as far as this process may use them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


def bind_device(world: World, threads: int | None) -> None:
    """Make ``world.device`` the current one and set the compute threads of this process.

    To be called before anything else touches CUDA. ``threads`` None: as torch has it.
    """
    import torch

    if world.device != "cpu":
        torch.cuda.set_device(world.local_rank)
    if threads is not None:
        torch.set_num_threads(threads)


_ENDED: list[object] = []
"""Groups that are closed, kept until the process ends.

PyTorch's DDP wrapper may outlive its group. If it held the last reference, the group would be
destroyed by a thread that holds Python's lock and waits for gloo's threads, which may want it.
"""


@contextmanager
def open_group(
    world: World, timeout_s: float, environ: Mapping[str, str] = os.environ
) -> Iterator[Group]:
    """The group of all ranks of ``world``, as torch's default group too (for DDP).

    Ranks meet at the store of the launcher (``MASTER_ADDR``, ``MASTER_PORT``) under the run id and
    attempt, so addresses of an earlier attempt are never dialled. Where all ranks are on one
    machine, everything stays on the loopback interface. An exception on the way out breaks the
    connections instead of waiting for peers.

    Args:
        world: what :func:`read_world` gave.
        timeout_s: how long a message, and the meeting, may wait for peers.
        environ: the launcher's variables.

    Raises:
        LaunchError: no address to meet at.
        PeerLostError: not all ranks came in time.
    """
    from lightwork.comm.group import Group

    if world.size == 1:
        yield Group.alone()
        return
    from torch import distributed as dist

    group = _meet(world, timeout_s, environ)
    _ENDED.append(group.process_group)
    try:
        yield group
    except BaseException:
        group.abort()
        raise
    finally:
        group.close()
        dist.destroy_process_group()


def _meet(world: World, timeout_s: float, environ: Mapping[str, str]) -> Group:
    """Connect to all other ranks; PeerLostError when they do not come in time."""
    from torch import distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore

    from lightwork.comm.group import Group

    stay_on_loopback(world, environ)
    kind = "cpu" if world.device == "cpu" else "cuda"
    timeout = timedelta(seconds=timeout_s)
    try:
        agreed = PrefixStore(f"{world.run_id}/{world.attempt}", _store(world, timeout, environ))
        dist.init_process_group(
            "cpu:gloo" if kind == "cpu" else "cpu:gloo,cuda:nccl",
            store=PrefixStore("world", agreed),
            rank=world.rank,
            world_size=world.size,
            timeout=timeout,
        )
    except RuntimeError as error:
        raise PeerLostError(
            f"rank {world.rank} did not find all {world.size} ranks at "
            f"{environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')} within {timeout_s:g} s "
            f"({str(error).splitlines()[0]})"
        ) from error
    world_group = dist.group.WORLD
    assert world_group is not None
    # Without one, torch warns at the end that it knows no backend of the default type.
    world_group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    return Group(world_group, PrefixStore("splits", agreed), timeout_s, kind)


def stay_on_loopback(world: World, environ: Mapping[str, str]) -> None:
    """Let gloo and NCCL use the loopback interface if all ranks are on this machine.

    What the user set stays.
    """
    if not _one_machine(world, environ):
        return
    interface = "lo" if sys.platform == "linux" else "lo0"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)


def _one_machine(world: World, environ: Mapping[str, str]) -> bool:
    address = environ.get("MASTER_ADDR", "")
    return world.local_size == world.size or address in {LOOPBACK, "localhost", "::1"}


def _store(world: World, timeout: timedelta, environ: Mapping[str, str]) -> TCPStore:
    """A client of the launcher's store; hosted by rank 0 where the launcher has none."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    if "MASTER_ADDR" not in environ:
        raise LaunchError(
            f"WORLD_SIZE={world.size} but MASTER_ADDR is not set; start with --ranks or torchrun"
        )
    port = _count(environ, "MASTER_PORT", least=1)
    launcher_hosts = (
        world.launcher == "lightwork" or environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    )
    hosts = world.rank == 0 and not launcher_hosts
    listener = None
    if hosts and _one_machine(world, environ):
        listener = listen(port)  # TCPStore by itself listens on every interface
    return TCPStore(
        environ["MASTER_ADDR"],
        port,
        is_master=hosts,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listener,
    )


def _attempt(environ: Mapping[str, str]) -> int:
    for name in ("LIGHTWORK_ATTEMPT", "TORCHELASTIC_RESTART_COUNT"):
        if name in environ:
            return _count(environ, name, least=0)
    return 0


def _count(environ: Mapping[str, str], name: str, least: int) -> int:
    if name not in environ:
        raise LaunchError(
            f"{name} not set, although other variables of a launcher are (start with --ranks or "
            "torchrun)"
        )
    text = environ[name]
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise LaunchError(f"{name}={text!r} must be a whole number, {least} or more")
    return value


def _position(environ: Mapping[str, str], name: str, limit_name: str, limit: int) -> int:
    value = _count(environ, name, least=0)
    if value >= limit:
        raise LaunchError(
            f"{name} must be < {limit_name}, but {name}={value}, {limit_name}={limit}"
        )
    return value
