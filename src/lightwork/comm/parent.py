"""A rank must not outlive the process that started it, however that process ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

_PR_SET_PDEATHSIG = 1
"""From prctl(2): the signal this process gets when its parent dies."""
_LOOK_EVERY_S = 0.5


def die_with_parent(environ: Mapping[str, str]) -> None:
    """Tie this rank to its launcher: ours, or torchrun, whose ranks survive its SIGKILL.

    To be called first of all, before anything slow is imported. Does nothing for a process that a
    person started alone or that an unknown launcher started.
    """
    if "LIGHTWORK_PARENT_PID" in environ:
        parent = int(environ["LIGHTWORK_PARENT_PID"])
    elif "TORCHELASTIC_RUN_ID" in environ:
        parent = os.getppid()
    else:
        return
    asked_kernel = sys.platform == "linux" and _ask_kernel()
    if os.getppid() != parent:  # it died before the kernel was asked
        _end()
    if not asked_kernel:
        watch = threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True)
        watch.start()


def _ask_kernel() -> bool:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
