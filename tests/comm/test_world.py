"""A place among the ranks, read from what a launcher sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from lightwork.comm import world as world_module
from lightwork.comm.group import Group
from lightwork.comm.world import World, bind_device, open_group, read_world, stay_on_loopback
from lightwork.errors import LaunchError, PeerLostError
from tests.ranks import run_as_processes

PLACES = [
    ({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 4, 1),
    ({"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16"}, 8, 1),
    ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "6,7"}, 2, 0),
]
ERRORS = [
    (
        {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "0,1"},
        2,
        r"4 local processes but 2 visible devices \(LOCAL_RANK=3, CUDA_VISIBLE_DEVICES=0,1\)",
    ),
    (
        {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"},
        2,
        "3 local processes but 2 visible devices",
    ),
    ({"RANK": "1", "WORLD_SIZE": "2"}, 2, "LOCAL_RANK not set"),
    ({"RANK": "1", "LOCAL_RANK": "1"}, 2, "WORLD_SIZE not set"),
    (
        {"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "2"},
        1,
        "RANK must be < WORLD_SIZE, but RANK=2, WORLD_SIZE=2",
    ),
    ({"RANK": "one", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, 0, "RANK='one' must be a whole number"),
    ({"RANK": "-1", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, 0, "RANK='-1' must be a whole number"),
    ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "0"}, 0, "WORLD_SIZE='0' must be a whole"),
    (
        {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"},
        0,
        "LOCAL_RANK must be < LOCAL_WORLD_SIZE, but LOCAL_RANK=1, LOCAL_WORLD_SIZE=1",
    ),
    (
        {"RANK": "1", "LOCAL_RANK": "4", "WORLD_SIZE": "2"},
        0,
        r"5 local processes \(LOCAL_RANK=4\) but WORLD_SIZE=2",
    ),
]


@pytest.mark.parametrize(("environ", "gpus", "index"), PLACES)
def test_the_device_is_the_local_rank(environ: dict[str, str], gpus: int, index: int) -> None:
    world = read_world(environ, gpus)
    assert world.device == f"cuda:{index}"
    assert world.rank == int(environ["RANK"])
    assert world.launcher == "torchrun"


@pytest.mark.parametrize(("environ", "gpus", "message"), ERRORS)
def test_errors_name_variable_and_value(environ: dict[str, str], gpus: int, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        read_world(environ, gpus)


def test_without_a_launcher_it_is_a_single_process() -> None:
    assert read_world({}, 0) == World(0, 1, 0, 1, "cpu", 0, "", "single")
    assert read_world({}, 2).device == "cuda:0"
    assert read_world({}, 2, "cpu").device == "cpu"
    with pytest.raises(LaunchError, match="no GPU is visible"):
        read_world({}, 0, "cuda")


def test_on_cpu_any_number_of_ranks_fits() -> None:
    environ = {"RANK": "7", "LOCAL_RANK": "7", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}
    assert read_world(environ, 0).device == "cpu"
    assert read_world(environ, 2, "cpu").device == "cpu"


def test_attempt_and_run_id_come_from_either_launcher() -> None:
    place = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    elastic = {"TORCHELASTIC_RUN_ID": "elastic", "TORCHELASTIC_RESTART_COUNT": "3"}
    own = {"LIGHTWORK_RUN_ID": "own", "LIGHTWORK_ATTEMPT": "1"}
    assert read_world({**place, **elastic}, 0) == World(1, 2, 1, 2, "cpu", 3, "elastic", "torchrun")
    # ours, started from inside the other
    assert read_world({**place, **elastic, **own}, 0) == World(
        1, 2, 1, 2, "cpu", 1, "own", "lightwork"
    )


@pytest.mark.shared
def test_shared_case_of_devices_from_the_environment(shared: Path) -> None:
    folder = shared / "cases" / "33-device-from-environment"
    rows = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    expected = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    assert len(rows) == len(expected) == 8
    for row, wanted in zip(rows, expected, strict=True):
        _check_row(row, wanted)


def _check_row(row: dict[str, Any], wanted: int | str) -> None:
    environ, gpus = row["env"], row["visible_device_count"]
    if isinstance(wanted, str) and wanted.startswith("error: "):
        with pytest.raises(LaunchError) as caught:
            read_world(environ, gpus)
        assert wanted.removeprefix("error: ").partition(" (")[0] in str(caught.value)
        return
    world = read_world(environ, gpus)
    assert world.device == (f"cuda:{wanted}" if isinstance(wanted, int) else "cpu")
    assert (world.launcher == "single") == (wanted == "cpu, single process")


@pytest.mark.parametrize(
    ("local_size", "address", "stays"),
    [(2, "10.0.0.1", True), (1, "127.0.0.1", True), (1, "10.0.0.1", False)],
)
def test_one_machine_stays_on_the_loopback_interface(
    monkeypatch: pytest.MonkeyPatch, local_size: int, address: str, stays: bool
) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    world = World(0, 2, 0, local_size, "cpu", 0, "", "torchrun")
    stay_on_loopback(world, {"MASTER_ADDR": address})
    loopback = "lo" if sys.platform == "linux" else "lo0"
    assert os.environ.get("GLOO_SOCKET_IFNAME") == (loopback if stays else None)
    assert os.environ["NCCL_SOCKET_IFNAME"] == "eth7"  # what the user set


def test_a_single_process_opens_a_group_of_one() -> None:
    with open_group(read_world({}, 0), 1.0, {}) as group:
        assert (group.size, group.process_group) == (1, None)


def test_no_address_to_meet_at() -> None:
    world = World(0, 2, 0, 2, "cpu", 0, "", "torchrun")
    with pytest.raises(LaunchError, match="MASTER_ADDR is not set"), open_group(world, 1.0, {}):
        pass


@pytest.mark.parametrize("kind", ["nobody hosts", "nobody comes"])
def test_waiting_for_ranks_that_never_come_ends(kind: Literal["nobody hosts"] | str) -> None:
    world = World(0 if kind == "nobody comes" else 1, 2, 0, 2, "cpu", 0, kind, "torchrun")
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    started_s = time.monotonic()
    with (
        pytest.raises(PeerLostError, match="did not find all 2 ranks"),
        open_group(world, 1.5, environ),
    ):
        pass
    assert time.monotonic() - started_s < 10


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_binding_sets_the_threads_and_the_device_of_the_local_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    calls: list[tuple[str, int]] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: calls.append(("device", index)))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: calls.append(("threads", count)))
    bind_device(World(5, 8, 1, 4, "cuda:1", 0, "", "torchrun"), 3)
    bind_device(World(0, 1, 0, 1, "cpu", 0, "", "single"), 2)
    assert calls == [("device", 1), ("threads", 3), ("threads", 2)]


def test_gpus_are_counted_without_torch_where_there_is_no_driver(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, lightwork.comm.world as w\n"
        "w.Path = lambda _: pathlib.Path(sys.argv[1])\n"
        "print(w.visible_gpus(), 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert _run(command) == "0 False"


def test_rooms_that_start_processes_do_not_import_torch() -> None:
    modules = ["supervisor", "world", "parent", "told", "listener"]
    names = ", ".join(f"lightwork.comm.{name}" for name in modules)
    code = f"import sys, lightwork.comm, {names}; print('torch' in sys.modules)"
    assert _run([sys.executable, "-c", code]) == "False"


def _run(command: list[str]) -> str:
    environ = {**os.environ, "PYTHONPATH": str(Path(world_module.__file__).parents[2])}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def leave_with_messages_under_way(group: Group) -> float:
    """Runs in ranks that are processes: rank 0 fails while its message waits for rank 1."""
    import torch

    started_s = time.monotonic()
    if group.rank == 0:
        group.all_reduce(torch.ones(1))
        raise ArithmeticError("on the way out")
    time.sleep(40)
    return time.monotonic() - started_s


@pytest.mark.processes
def test_an_exception_does_not_wait_for_peers_on_the_way_out() -> None:
    started_s = time.monotonic()
    with pytest.raises(RuntimeError, match="on the way out"):
        run_as_processes(2, f"{__file__}:leave_with_messages_under_way")
    assert time.monotonic() - started_s < 30  # starting the processes takes most of it
