"""Exchange over a slow network: ``python -m benchmarks.slow_network --out slow.json``.

Network namespaces of this machine (``benchmarks.namespaces``), joined by lines of ``--rate``
Mbit/s, one rank in each. Everything is held against a plain TCP stream in the same namespaces
(``benchmarks.stream``): summing D bytes over n ranks cannot take less than that stream needs for
2 (n - 1) / n times D (Patarasuk and Yuan, 2009), which is called the ideal.

* transfer: every strategy sums a gradient that is there already;
* training: two ranks learn side by side with PyTorch's DistributedDataParallel, in turn.

    python -m benchmarks.slow_network --table slow.json

Needs root, Linux and ``iproute2``; elsewhere it says so and ends with 0.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import link_steps, transferring
from benchmarks.launching import MODEL, environment, numbers, write_settings
from benchmarks.machine import machine, versions
from benchmarks.namespaces import BURST_S, QUEUE_MS, Network, missing, network, run_ranks, started
from benchmarks.one_rank import save
from benchmarks.slow_tables import document
from lightwork.errors import LightworkError
from lightwork.settings import check_files, load_settings

STRATEGIES = ("all_reduce", "ring", "tree")
LARGE, SMALL = 90_000_000, 20_000_000
QUICK = 4_000_000
"""Bytes of a gradient: a MiniLM's, and less for many numbers of ranks."""
STREAM_PORT, STREAM_REPEATS = "5001", 3
TIMEOUT_S = 3600.0
SETTINGS: dict[str, dict[str, Any]] = {
    "data": {"on_mismatch": "drop"},
    "train": {"schedule": "constant", "warmup_ratio": 0},
    "sync": {"timeout_s": 300},
    "launch": {"device": "cpu", "threads": 1},
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.slow_network", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    add = made.add_argument
    add("overrides", nargs="*", metavar="SECTION.KEY=VALUE", help="settings of the training")
    add("--table", type=Path, metavar="RESULTS", help="print the tables of a file")
    add("--quick", action="store_true", help="that everything works, in a minute or two")
    add("--only", choices=("transfer", "training"), help="one of the two")
    add("--rate", type=float, default=200.0, help="Mbit/s of every line, in each direction")
    add("--ranks", type=numbers, default=[2, 3, 4, 8], help="numbers of namespaces")
    add("--repeats", type=int, default=5, help="of every transfer")
    add("--rounds", type=int, default=20, help="of the training, of one step of every contender")
    add("--batch", type=int, default=16, help="windows behind an update, over both ranks")
    add("--model", default=MODEL, help="as model.source of lightwork's settings")
    add("--data", type=Path, help="file of training questions; otherwise the built-in sample")
    add("--out", type=Path, default=Path("slow_network.json"), help="file of results")
    return made


def main(given: list[str] | None = None) -> None:
    """Measure, or print a table."""
    arguments = parser().parse_intermixed_args(given)
    try:
        if arguments.table is not None:
            print(document(json.loads(arguments.table.read_text(encoding="utf-8"))))
            return
        reason = missing()
        if reason is not None:
            print(f"slow_network: skipped, {reason}")
            return
        _check(arguments)
        given = sys.argv[1:] if given is None else given
        results = measured(arguments, f"python -m benchmarks.slow_network {shlex.join(given)}")
    except LightworkError as error:
        sys.exit(f"slow_network: {error}")
    except KeyboardInterrupt:
        sys.exit("slow_network: interrupted; the namespaces are gone")
    print(document(results))


def _check(arguments: argparse.Namespace) -> None:
    wrong = []
    if min(arguments.ranks) < 2:
        wrong.append("--ranks: one rank sends nothing; give 2 or more")
    if not 1 <= arguments.rate <= 100_000:
        wrong.append(f"--rate {arguments.rate:g}: give Mbit/s between 1 and 100000")
    if min(arguments.repeats, arguments.rounds) < 1:
        wrong.append("--repeats and --rounds need 1 or more")
    if not arguments.out.absolute().parent.is_dir():
        wrong.append(f"--out {arguments.out}: there is no such folder")
    if wrong:
        raise LightworkError("; ".join(wrong))
    if arguments.data is not None:
        check_files("--data", [str(arguments.data)])


def measured(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """One part after the other, each written to ``--out`` as soon as it is there."""
    results: dict[str, Any] = {"command": command, "machine": machine(), "versions": versions()}
    results |= {"transfers": [], "training": None}
    for count, size in plan(arguments.ranks, arguments.quick):
        if arguments.only == "training":
            break
        with network(count, arguments.rate) as net:
            results["network"] = facts(net)
            repeats = 2 if arguments.quick else arguments.repeats
            results["transfers"].append(transfer(net, size, repeats))
        _write(arguments.out, results)
    if arguments.only != "transfer":
        with network(2, arguments.rate) as net:
            results["network"] = facts(net)
            results["training"] = training(net, arguments)
        _write(arguments.out, results)
    return results


def _write(path: Path, results: dict[str, Any]) -> None:
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")


def plan(ranks: Sequence[int], quick: bool) -> list[tuple[int, int]]:
    """Ranks and bytes of every transfer: small ones for all, and one large."""
    if quick:
        return [(count, QUICK) for count in ranks]
    large = [(4, LARGE)] if 4 in ranks else []
    return [(count, SMALL) for count in ranks] + large


def facts(net: Network) -> dict[str, Any]:
    """What the lines are like."""
    return {
        "rate_mbit": net.rate_mbit,
        "limit": f"tc tbf, both directions, queue {QUEUE_MS} ms, burst {1000 * BURST_S:g} ms",
        "net.ipv4.tcp_congestion_control": net.read("net/ipv4/tcp_congestion_control"),
        "kernel": platform.release(),
    }


def stream(net: Network, count: int) -> list[float]:
    """Seconds in which ``count`` bytes go from one namespace to another, by a plain TCP stream."""
    rest = [net.address(1), STREAM_PORT, str(count), str(STREAM_REPEATS)]
    words = [[sys.executable, "-m", "benchmarks.stream", end, *rest] for end in ("receive", "send")]
    commands = [net.command(1, words[0]), net.command(0, words[1])]
    with started(commands, [environment()] * 2, stdout=subprocess.PIPE) as (receiver, sender):
        told, _ = sender.communicate(timeout=TIMEOUT_S)
        if sender.returncode or receiver.wait(TIMEOUT_S):
            raise LightworkError("the TCP stream between two namespaces broke")
    seconds: list[float] = json.loads(told)
    return seconds


def transfer(net: Network, size: int, repeats: int) -> dict[str, Any]:
    """All strategies in turn on ``size`` bytes."""
    print(f"transfer: {len(net.names)} ranks, {size / 1e6:g} MB", file=sys.stderr, flush=True)
    stream_s = stream(net, size)
    with tempfile.TemporaryDirectory(prefix="slow-network-") as folder:
        out, request = Path(folder) / "out.json", Path(folder) / "request.json"
        save(transferring.Request(list(STRATEGIES), size, repeats, str(out)), request)
        run_ranks(net, ["benchmarks.transferring", str(request)], _environment(), TIMEOUT_S)
        found = json.loads(out.read_text(encoding="utf-8"))
    return {"ranks": len(net.names), "bytes": size, "stream_s": stream_s, "strategies": found}


def training(net: Network, arguments: argparse.Namespace) -> dict[str, Any]:
    """Two ranks that learn; contenders take turns."""
    overrides = [*arguments.overrides, f"train.batch_size={arguments.batch}"]
    values = {**SETTINGS, "model": {"source": arguments.model}}
    with tempfile.TemporaryDirectory(prefix="slow-network-") as temporary:
        folder = Path(temporary)
        settings = write_settings(folder, values, arguments.data)
        load_settings(settings, overrides)  # mistakes are told here, once
        out, request = folder / "out.json", folder / "request.json"
        wanted = link_steps.Request(
            settings=str(settings),
            overrides=overrides,
            run=str(folder / "run"),
            contenders=list(link_steps.CONTENDERS),
            rounds=2 if arguments.quick else arguments.rounds,
            warmup=1 if arguments.quick else 2,
            out=str(out),
        )
        save(wanted, request)
        stream_s = stream(net, QUICK if arguments.quick else SMALL)
        run_ranks(net, ["benchmarks.link_steps", str(request)], _environment(), TIMEOUT_S)
        found = json.loads(out.read_text(encoding="utf-8"))
    rate = (QUICK if arguments.quick else SMALL) / min(stream_s)
    return {**found, "batch": arguments.batch, "stream_bytes_per_s": rate}


def _environment() -> dict[str, str]:
    """That of the ranks; they cannot look up each other's names, of which c10d would warn."""
    return {**environment(), "TORCH_CPP_LOG_LEVEL": "ERROR"}


if __name__ == "__main__":
    main()
