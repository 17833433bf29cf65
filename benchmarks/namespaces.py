"""A slow network inside one machine: network namespaces on a bridge, both directions limited.

Needs Linux, root, and ``ip`` and ``tc`` (Debian: ``iproute2``). Each namespace has one interface, a
``veth`` pair whose other end hangs on the bridge; a token bucket (``tc … tbf``) stands in front of
both ends, so what a namespace sends and what it receives is limited, each by itself, as on a
full-duplex line. What runs in two namespaces reaches each other over TCP only, as on two machines.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any

from lightwork.errors import LightworkError

QUEUE_MS = 50
"""What waits in front of the limit, at most: more is dropped, as in a switch."""
BURST_S = 0.005
"""So long a sender that was idle may go at full speed."""
LEAST_BURST_BYTES = 128 << 10
"""A segment that the kernel hands over in one piece, twice."""
_ENDS_WITHIN_S = 5.0


@dataclass(frozen=True)
class Network:
    """Some namespaces that reach each other."""

    names: tuple[str, ...]
    rate_mbit: float

    @staticmethod
    def address(place: int) -> str:
        """Of namespace ``place``, inside."""
        return f"10.213.0.{place + 1}"

    @staticmethod
    def interface() -> str:
        """What the line is called in every namespace."""
        return "line"

    def command(self, place: int, words: Sequence[str]) -> list[str]:
        """``words``, run in namespace ``place``; the process that starts becomes the command."""
        return ["ip", "netns", "exec", self.names[place], *words]

    def read(self, name: str) -> str:
        """A value below ``/proc/sys`` as namespace 0 has it."""
        return _run(*self.command(0, ["cat", f"/proc/sys/{name}"])).strip()


def missing() -> str | None:
    """Why there cannot be a network here; None where there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    tools = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if tools:
        return f"{' and '.join(tools)} not found (Debian: apt-get install iproute2)"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    try:
        with network(1, 100.0):
            return None
    except LightworkError as error:
        return f"no network namespace can be made ({error})"


@contextmanager
def network(count: int, rate_mbit: float) -> Iterator[Network]:
    """``count`` namespaces, gone at the end, however it comes; names carry this process's id.

    Raises LightworkError where the kernel refuses.
    """
    own = f"lw{os.getpid()}"
    names = tuple(f"{own}n{place}" for place in range(count))
    with _ended_by_signals(), ExitStack() as undo:
        bridge = f"{own}b"
        _made(undo, ["link", "add", bridge, "type", "bridge"], ["link", "del", bridge])
        _run("ip", "link", "set", bridge, "up")
        for place, name in enumerate(names):
            _made(undo, ["netns", "add", name], ["netns", "del", name])
            _connect(undo, bridge, place, name, rate_mbit)
        yield Network(names, rate_mbit)


def _connect(undo: ExitStack, bridge: str, place: int, name: str, rate_mbit: float) -> None:
    inside, outside = Network.interface(), f"lw{os.getpid()}v{place}"
    pair = ["link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name]
    _made(undo, pair, ["link", "del", outside])
    _run("ip", "link", "set", outside, "master", bridge, "up")
    _limit([], outside, rate_mbit)
    _run("ip", "-n", name, "link", "set", "lo", "up")
    _run("ip", "-n", name, "addr", "add", f"{Network.address(place)}/24", "dev", inside)
    _run("ip", "-n", name, "link", "set", inside, "up")
    _limit(["-n", name], inside, rate_mbit)


def _limit(where: list[str], device: str, rate_mbit: float) -> None:
    burst = max(LEAST_BURST_BYTES, int(rate_mbit * 1e6 / 8 * BURST_S))
    bucket = ["rate", f"{rate_mbit}mbit", "burst", str(burst), "latency", f"{QUEUE_MS}ms"]
    _run("tc", *where, "qdisc", "add", "dev", device, "root", "tbf", *bucket)


def _made(undo: ExitStack, make: list[str], unmake: list[str]) -> None:
    """Register the way back first: a signal may come between the two."""
    undo.callback(subprocess.run, ["ip", *unmake], capture_output=True, check=False)
    _run("ip", *make)


def _run(*words: str) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise LightworkError(f"`{' '.join(words)}` failed: {ended.stderr.strip()}")
    return ended.stdout


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    asked = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def started(
    commands: Sequence[Sequence[str]],
    environments: Sequence[Mapping[str, str]],
    **streams: IO[Any] | int | None,
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of one piece of work; none of them is left at the end."""
    running: list[subprocess.Popen[str]] = []
    try:
        for command, environment in zip(commands, environments, strict=True):
            running.append(subprocess.Popen(command, env=environment, text=True, **streams))  # type: ignore[call-overload]
        yield running
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait(_ENDS_WITHIN_S)
            if process.stdout is not None:
                process.stdout.close()


def run_ranks(
    net: Network,
    words: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
    output: IO[bytes] | None = None,
) -> None:
    """``python -m WORDS`` in every namespace, as ranks that torchrun would have started.

    Each is alone on its machine, as far as it knows. What they print goes to ``output``, or to
    where this process's does. Raises LightworkError where one fails.
    """
    size = len(net.names)
    own = {"WORLD_SIZE": str(size), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    own |= {"MASTER_ADDR": net.address(0), "MASTER_PORT": "29500"}
    own["GLOO_SOCKET_IFNAME"] = net.interface()
    places = range(size)
    commands = [net.command(place, [sys.executable, "-m", *words]) for place in places]
    environments = [{**environment, **own, "RANK": str(place)} for place in places]
    errors = None if output is None else subprocess.STDOUT
    with started(commands, environments, stdout=output, stderr=errors) as running:
        _wait(running, timeout_s)


def _wait(running: Sequence[subprocess.Popen[str]], timeout_s: float) -> None:
    """Until all have ended; after the first that failed the others get a moment to say why."""
    deadline_s = time.monotonic() + timeout_s
    while any(process.poll() is None for process in running):
        if any(process.poll() for process in running):
            deadline_s = min(deadline_s, time.monotonic() + _ENDS_WITHIN_S)
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.1)
    codes = [process.poll() for process in running]
    if any(codes):
        raise LightworkError(f"the ranks ended with {codes}; the reason is above")
    if None in codes:
        raise LightworkError(f"the ranks did not end within {timeout_s:.0f} s")
