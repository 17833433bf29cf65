"""NCCL's flight recorder: the last messages of every rank, written to a file when they hang.

torch 2.9 and later read these variables. What a person set stays, under the older names too. Only
torch reads the files: nothing here does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_ON_TIMEOUT = ("TORCH_NCCL_DUMP_ON_TIMEOUT",)
_FILE = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_PIPE = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",)
_ENTRIES = 2000
"""What torch itself keeps by default in newer versions; some kilobytes for each rank."""
_WAIT_S = 2.0


def recording(environ: Mapping[str, str], log_dir: Path, folder: Path) -> dict[str, str]:
    """``environ`` with the recorder on; ``folder`` is where ranks listen for a wish to write."""
    wanted = {
        _BUFFER: str(_ENTRIES),
        _ON_TIMEOUT: "1",
        _FILE: str(log_dir.absolute() / "nccl_rank"),
        _PIPE: str(folder / "nccl_rank"),
    }
    added = {names[0]: v for names, v in wanted.items() if not any(n in environ for n in names)}
    return {**environ, **added}


def dumps(environ: Mapping[str, str], ranks: Sequence[int], since_unix_s: float) -> list[Path]:
    """Ask these ranks to write; the files that they have written since then, or before.

    ``environ``: the variables that the ranks have. Empty where no rank uses NCCL.
    """
    asked = [rank for rank in ranks if _ask(Path(f"{_first(environ, _PIPE)}{rank}.pipe"))]
    prefix = _first(environ, _FILE)
    deadline = time.monotonic() + (_WAIT_S if asked else 0.0)
    while True:
        paths = [Path(f"{prefix}{rank}") for rank in ranks]
        found = [p for p in paths if p.exists() and p.stat().st_mtime >= since_unix_s]
        if len(found) >= len(asked) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _ask(pipe: Path) -> bool:
    """Whether somebody listens at ``pipe``, who now knows."""
    with suppress(OSError):
        handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(handle, b"1\n") > 0
        finally:
            os.close(handle)
    return False


def _first(environ: Mapping[str, str], names: Sequence[str]) -> str:
    return next(environ[name] for name in names if name in environ)
