"""What happens when a rank, or a launcher, ends otherwise than hoped: no process may be left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from lightwork.comm import supervisor as supervisor_module
from lightwork.comm.listener import LOOPBACK
from lightwork.comm.supervisor import Launch, supervise
from lightwork.errors import LaunchError, PeerLostError

PROGRAM = Path(__file__).with_name("program.py")
SOURCES = str(Path(supervisor_module.__file__).parents[2])
START_S = 60.0

pytestmark = pytest.mark.processes


def launch(mode: str, folder: Path, ranks: int = 2, grace_s: float = 5.0) -> Launch:
    return Launch(
        command=(sys.executable, str(PROGRAM), mode, str(folder)),
        ranks=ranks,
        run_id="run",
        log_dir=folder / "logs",
        environment={**os.environ, "PYTHONPATH": SOURCES},
        grace_s=grace_s,
    )


def wait_for(paths: Sequence[Path]) -> None:
    deadline = time.monotonic() + START_S
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"{paths} did not appear"
        time.sleep(0.02)


@contextmanager
def started(
    command: Sequence[str], folder: Path, ranks: int = 2
) -> Iterator[subprocess.Popen[str]]:
    """A launcher as a process of its own, once all its ranks are at work; none may be left."""
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # its process group is what a terminal's Ctrl-C would reach
    )
    family: list[psutil.Process] = [psutil.Process(process.pid)]
    try:
        wait_for([folder / f"rank{rank}.pid" for rank in range(ranks)])
        family += family[0].children(recursive=True)
        yield process
        _, left = psutil.wait_procs(family, timeout=8)
        assert not left, "processes were left"
        assert len(family) > ranks
    finally:
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.communicate(timeout=10)


def own(mode: str, folder: Path) -> list[str]:
    code = (
        "import os, sys, pathlib\n"
        "from lightwork.comm.supervisor import Launch, supervise\n"
        "program, mode, folder = sys.argv[1:]\n"
        "command = (sys.executable, program, mode, folder)\n"
        "logs = pathlib.Path(folder, 'logs')\n"
        "sys.exit(supervise(Launch(command, 2, 'run', logs, os.environ, 5.0)))\n"
    )
    return [sys.executable, "-c", code, str(PROGRAM), mode, str(folder)]


def torchrun(mode: str, folder: Path) -> list[str]:
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    return [*run, str(PROGRAM), mode, str(folder)]


def rank_pid(folder: Path, rank: int) -> int:
    return int((folder / f"rank{rank}.pid").read_text())


def test_ranks_that_end_well(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert supervise(launch("once", tmp_path, ranks=3)) == 0
    assert [(tmp_path / f"rank{rank}.pid").read_text() for rank in range(3)] == [
        f"{rank} {rank} 3 3 run" for rank in range(3)
    ]
    assert capfd.readouterr().err == ""


def test_a_killed_rank_ends_all_and_nothing_listened_to_the_outside(tmp_path: Path) -> None:
    with started(own("messages", tmp_path), tmp_path) as process:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
        listeners = [
            connection.laddr.ip
            for member in family
            for connection in member.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(listeners) >= 3  # the store and one of gloo's for each rank
        assert set(listeners) == {LOOPBACK}
        os.kill(rank_pid(tmp_path, 1), signal.SIGKILL)
        output, _ = process.communicate(timeout=15)
        assert process.returncode == 128 + signal.SIGKILL
        assert "rank 1 of 2 was ended by SIGKILL" in output


def test_a_killed_supervisor_takes_its_ranks_along(tmp_path: Path) -> None:
    with started(own("stubborn", tmp_path), tmp_path) as process:
        process.kill()


@contextmanager
def once_at_work(folder: Path, action: Callable[[], None]) -> Iterator[None]:
    """Do something to the ranks, or to this process, while it supervises two ranks."""

    def act() -> None:
        wait_for([folder / f"rank{rank}.pid" for rank in range(2)])
        action()

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()
    assert not [rank for rank in range(2) if psutil.pid_exists(rank_pid(folder, rank))]


def send_here(signum: int) -> None:
    os.kill(os.getpid(), signum)


def test_ctrl_c_during_messages(tmp_path: Path) -> None:
    with once_at_work(tmp_path, lambda: send_here(signal.SIGINT)):
        assert supervise(launch("messages", tmp_path)) == 130
    log = (tmp_path / "logs" / "rank1.log").read_text()
    assert "KeyboardInterrupt" in log or "another rank went away" in log  # not killed later


def test_what_a_rank_started_ends_too(tmp_path: Path) -> None:
    def kill() -> None:
        wait_for([tmp_path / f"rank{rank}.child" for rank in range(2)])
        os.kill(rank_pid(tmp_path, 0), signal.SIGKILL)

    with once_at_work(tmp_path, kill):
        assert supervise(launch("sleep", tmp_path)) == 137
    assert not alive(list(tmp_path.glob("*.child")))


def alive(paths: Sequence[Path]) -> list[Path]:
    """Those that name a process that runs; a moment is given for the kernel to clear up."""
    deadline = time.monotonic() + 5
    while True:
        left = [path for path in paths if psutil.pid_exists(int(path.read_text()))]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def test_ranks_that_do_not_listen_are_killed(tmp_path: Path) -> None:
    (tmp_path / "fail").touch()
    started_s = time.monotonic()
    assert supervise(launch("stubborn", tmp_path, grace_s=0.5)) == 7
    assert time.monotonic() - started_s < 30, "they would sleep for a minute"
    assert not psutil.pid_exists(rank_pid(tmp_path, 0))


def test_an_error_of_all_ranks_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Though the other ranks end first, nobody speaks before rank 0 does."""
    assert supervise(launch("joint", tmp_path, ranks=3)) == 2
    assert capfd.readouterr().err == "train.epochs must be 1 or more\n"
    assert "train.epochs" in (tmp_path / "logs" / "rank2.log").read_text()


def test_an_error_of_one_rank_is_told_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert supervise(launch("lonely", tmp_path, ranks=3)) == 2
    assert capfd.readouterr().err == "rank 2: only rank 2 knows\n"


def test_the_rank_with_the_reason_counts_and_its_log_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "rank1.log").write_text("of an earlier run\n")
    assert supervise(launch("traceback", tmp_path, ranks=3)) == 1
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == "rank 1 of 3 ended with exit code 1; all ranks were stopped."
    assert shown[1] == f"The last lines of {logs / 'rank1.log'}:"
    assert "  line 39" in shown
    assert "  line 5" not in shown
    assert shown[-1] == "  ArithmeticError: a bug"
    assert len(shown) == 2 + 20
    assert (logs / "rank1.log").read_text().startswith("of an earlier run\nline 0\n")


def test_a_killed_rank_and_its_last_words_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "rank1.log").write_text("of an earlier run\n")
    assert supervise(launch("killed", tmp_path)) == 137
    assert capfd.readouterr().err.splitlines() == [
        "rank 1 of 2 was ended by SIGKILL (often because memory ran out); all ranks were stopped.",
        f"The last lines of {logs / 'rank1.log'}:",
        "  last words",
    ]


def test_if_nobody_knows_the_reason_the_lost_peer_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert supervise(launch("peers", tmp_path)) == PeerLostError.exit_code
    lines = capfd.readouterr().err.splitlines()
    assert lines in (["rank 0: rank 0 lost its peer"], ["rank 1: rank 1 lost its peer"])


def test_a_rank_that_ends_before_the_others_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert supervise(launch("leaves", tmp_path)) == PeerLostError.exit_code
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1].startswith("rank 1 of 2 ended, with exit code 0, while others were still at")


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    wrong = Launch(("no-such-program",), 2, "run", tmp_path, os.environ, 1.0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(LaunchError, match="cannot start no-such-program"):
        supervise(wrong)
    assert signal.getsignal(signal.SIGINT) is before


def test_torchrun_with_a_killed_rank(tmp_path: Path) -> None:
    with started(torchrun("messages", tmp_path), tmp_path) as process:
        os.kill(rank_pid(tmp_path, 1), signal.SIGKILL)
        process.communicate(timeout=30)
        assert process.returncode != 0


def test_killed_torchrun(tmp_path: Path) -> None:
    with started(torchrun("stubborn", tmp_path), tmp_path) as process:
        process.kill()


def test_torchrun_and_ctrl_c(tmp_path: Path) -> None:
    with started(torchrun("polite", tmp_path), tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=45)
        assert process.returncode != 0
