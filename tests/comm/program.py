"""What the ranks of the supervisor's tests run: ``python program.py MODE FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from lightwork.comm import phases
from lightwork.comm.parent import die_with_parent
from lightwork.comm.told import tell
from lightwork.errors import LightworkError, PeerLostError, SettingsError, StepError

RANK = int(os.environ["RANK"])
ATTEMPT = os.environ.get("LIGHTWORK_ATTEMPT", "0")


def mark(folder: Path) -> None:
    """Show the test that this rank got here."""
    partial = folder / f"{RANK}.part"
    partial.write_text(str(os.getpid()))
    partial.rename(folder / f"rank{RANK}.pid")


def messages(folder: Path) -> None:
    """Exchange messages until stopped."""
    import torch

    from lightwork.comm.world import open_group, read_world

    torch.set_num_threads(1)
    world = read_world(os.environ, visible_gpus=0)
    with open_group(world, timeout_s=60, environ=os.environ) as group:
        while True:
            total = torch.ones(1)
            group.all_reduce(total).wait()
            assert total.item() == world.size
            if not (folder / f"rank{RANK}.pid").exists():
                mark(folder)
            time.sleep(0.02)


def once(folder: Path) -> None:
    """A good end."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LIGHTWORK_RUN_ID")
    (folder / f"rank{RANK}.pid").write_text(" ".join(os.environ[name] for name in names))


def sleep(folder: Path) -> None:
    """A rank without torch, which starts fast; it has a child of its own."""
    child = os.fork()
    (folder / f"rank{RANK}.{'child' if child == 0 else 'mother'}").write_text(str(os.getpid()))
    if child:
        mark(folder)
    time.sleep(60)


def stubborn(folder: Path) -> None:
    """Does not end when asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mark(folder)
    if RANK == 1 and (folder / "fail").exists():
        while not (folder / "rank0.pid").exists():
            time.sleep(0.05)
        sys.exit(7)
    time.sleep(60)


def polite(folder: Path) -> None:
    """Ends well when asked by the expected signal."""

    def end(number: int, _frame: object) -> None:
        (folder / f"rank{RANK}.signal").write_text(signal.Signals(number).name)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, end)
    signal.signal(signal.SIGINT, end)
    mark(folder)
    time.sleep(60)


def saves(folder: Path) -> None:
    """Takes a moment to end when asked."""

    def end(_number: int, _frame: object) -> None:
        with (folder / f"rank{RANK}.asked").open("a") as file:
            file.write("asked\n")
        time.sleep(1.5)
        (folder / f"rank{RANK}.saved").touch()
        sys.exit(0)

    signal.signal(signal.SIGINT, end)
    mark(folder)
    time.sleep(60)


def dies(folder: Path) -> None:
    """Rank 1 dies in step 3 of the first attempts, as many as ``folder/deaths`` says."""
    (folder / f"attempt{ATTEMPT}.rank{RANK}").touch()
    phases.enter("data", 3)
    phases.work_on(lambda: ["q7", "q8"])
    phases.enter("forward")
    if int(ATTEMPT) < int((folder / "deaths").read_text()):
        if RANK == 1:
            while not (folder / f"attempt{ATTEMPT}.rank0").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


def hangs(folder: Path) -> None:
    """In the first attempt rank 1 stands still in step 3, as ``folder/how`` says."""
    how = (folder / "how").read_text()
    for step in (1, 2, 3):
        phases.enter("data", step)
    if ATTEMPT != "0":
        return
    if RANK == 1:
        phases.work_on(lambda: ["q7", "q8"])
        phases.enter("forward")
        mark(folder)
        if how == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            stand_still(0.5 if how == "a moment" else 60)
        return
    mark(folder)
    with phases.waiting():
        while how != "a moment":
            time.sleep(1)


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


def impatient(_folder: Path) -> None:
    """Rank 0 waits for rank 1, and then no longer."""
    phases.enter("data", 3)
    if RANK == 1:
        phases.enter("forward")
        time.sleep(60)
    with phases.waiting():
        time.sleep(1)
    raise PeerLostError("another rank did not answer")


def step(_folder: Path) -> None:
    """A step fails, which all ranks tell."""
    phases.enter("control", 3)
    raise StepError("step 3 failed. rank 1: a bug")


def was_asked(_folder: Path) -> None:
    """Somebody sent the ranks themselves a signal."""
    sys.exit(128 + signal.SIGTERM)


def asked_early(_folder: Path) -> None:
    """Rank 1 gets a signal before it can do anything about it; the other one works."""
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def deaf(folder: Path) -> None:
    """A signal comes when all is done."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    mark(folder)
    time.sleep(1)


def joint(_folder: Path) -> None:
    """All ranks find the same mistake, rank 0 last."""
    time.sleep(0.6 if RANK == 0 else 0.0)
    raise SettingsError("train.epochs must be 1 or more")


def lonely(_folder: Path) -> None:
    """Rank 2 alone finds a mistake; the others wait for it."""
    if RANK != 2:
        time.sleep(60)
    raise SettingsError("only rank 2 knows")


def traceback(_folder: Path) -> None:
    """Rank 1 has a bug, which its peers notice first."""
    if RANK != 1:
        raise PeerLostError("another rank went away")
    sys.stdout.write("".join(f"line {number}\n" for number in range(40)))
    time.sleep(0.3)
    raise ArithmeticError("a bug")


def killed(_folder: Path) -> None:
    """Rank 1 is killed, and then its peer notices."""
    if RANK == 1:
        sys.stdout.write("last words\n")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)
    raise PeerLostError("another rank went away")


def peers(_folder: Path) -> None:
    """Nobody knows the reason."""
    raise PeerLostError(f"rank {RANK} lost its peer")


def leaves(folder: Path) -> None:
    """The last rank ends as if all was done; the others then lose it."""
    if RANK == 1:
        mark(folder)
        sys.exit(0)
    while not any(folder.glob("*.pid")):
        time.sleep(0.05)
    time.sleep(1)
    raise PeerLostError("rank 0 lost its peer")


def main() -> None:
    die_with_parent(os.environ)
    phases.open_slot(os.environ)
    mode, folder = sys.argv[1], Path(sys.argv[2])
    try:
        globals()[mode](folder)
    except LightworkError as error:
        tell(str(error), os.environ, error.joint, error.repeats)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
