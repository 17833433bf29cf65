"""What the ranks of the supervisor's tests run: ``python program.py MODE FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from lightwork.comm.parent import die_with_parent
from lightwork.comm.told import tell
from lightwork.errors import LightworkError, PeerLostError, SettingsError

RANK = int(os.environ["RANK"])


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
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    mark(folder)
    time.sleep(60)


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


def leaves(_folder: Path) -> None:
    """The last rank ends as if all was done; the others then lose it."""
    if RANK == 1:
        sys.exit(0)
    time.sleep(1)
    raise PeerLostError("rank 0 lost its peer")


def main() -> None:
    die_with_parent(os.environ)
    mode, folder = sys.argv[1], Path(sys.argv[2])
    try:
        globals()[mode](folder)
    except LightworkError as error:
        tell(str(error), os.environ, error.joint)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
