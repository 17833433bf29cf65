"""Training that is asked to leave, or dies; called like ``programs``."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from lightwork.assembly import training
from lightwork.comm.signals import Stopped
from lightwork.train.gradients import Gradients
from tests.runs.planted import plant
from tests.runs.programs import train


def a_signal_in_step_3(settings: str, run: str, *overrides: str) -> int:
    """Rank 1 alone is asked to leave; returns the exit code."""
    compute = Gradients.compute

    def asked(self: Gradients, step: int, *rest: Any) -> Any:
        if step == 3 and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return compute(self, step, *rest)

    plant(Gradients, "compute", asked)
    return exit_code(settings, run, *overrides)


def a_signal_in_an_evaluation(settings: str, run: str, *overrides: str) -> int:
    """All ranks are asked to leave while they score; returns the exit code."""

    def asked(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it went on")

    plant(training, "evaluate", asked)
    return exit_code(settings, run, *overrides)


def exit_code(settings: str, run: str, *overrides: str) -> int:
    try:
        train(settings, run, *overrides)
    except Stopped as stopped:
        return 128 + stopped.signum
    return 0


def die(settings: str, run: str, when: str, *overrides: str) -> None:
    """All ranks vanish, as in a crash, in step ``when``, once what is being saved is written."""
    compute = Gradients.compute

    def dying(self: Gradients, step: int, *rest: Any) -> Any:
        if step == int(when):
            for thread in threading.enumerate():
                if thread.name == "lightwork-checkpoint":
                    thread.join()
            os.kill(os.getpid(), signal.SIGKILL)
        return compute(self, step, *rest)

    plant(Gradients, "compute", dying)
    train(settings, run, *overrides)


def a_signal_while_data_is_prepared(settings: str, run: str, *overrides: str) -> int:
    """All ranks are asked to leave before there is a group; returns the exit code."""

    def asked(_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        raise AssertionError("it went on")

    plant(training, "prepare", asked)
    return exit_code(settings, run, *overrides)
