"""``lightwork`` whose ranks meet with faults at chosen places; see ``FAULTS``.

``python -c "from tests.processes import faulty; faulty.launch()" train …`` means
``lightwork train …``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lightwork.cli import launching, main
from lightwork.comm.phases import Slot
from lightwork.comm.supervisor import Launch, supervise

FAULTS = "FAULTS"
"""Words ``attempt:rank:phase:step:signal``. When that rank enters the phase of the step, it gets
the signal; ``*`` stands for every attempt, and ``LAUNCHER`` means that its launcher is killed."""


def launch() -> None:
    """The command of this process, with faults."""
    rank = "from tests.processes import faulty; faulty.rank()"

    def start(asked: Launch) -> int:
        return supervise(replace(asked, command=(sys.executable, "-c", rank, *asked.command[3:])))

    plant(launching, "supervise", start)
    main.run()


def rank() -> None:
    """One of the ranks."""
    faults = [word.split(":") for word in os.environ[FAULTS].split()]
    here = (os.environ["LIGHTWORK_ATTEMPT"], os.environ["RANK"])
    enter = Slot.enter

    def entered(slot: Slot, name: str, step: int | None = None) -> None:
        enter(slot, name, step)
        for attempt, number, phase, at, what in faults:
            if (number, phase, at) == (here[1], name, str(slot._step)) and attempt in (
                here[0],
                "*",
            ):
                meet_with(what)

    plant(Slot, "enter", entered)
    main.run()


def plant(place: Any, name: str, wrong: Callable[..., Any]) -> None:
    """This process ends with the test, so nothing needs to be put back."""
    assert hasattr(place, name)
    setattr(place, name, wrong)


def meet_with(what: str) -> None:
    if what == "LAUNCHER":
        os.kill(os.getppid(), signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.Signals[what])
