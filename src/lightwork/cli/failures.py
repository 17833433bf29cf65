"""Failures that nobody foresaw: the traceback goes to a file, a person gets one line."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightwork.errors import LightworkError

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


class UnexpectedError(LightworkError):
    """A mistake of ours, or of a library; its traceback was written to a file."""

    exit_code = 1
    joint = False
    repeats = False


@contextmanager
def failures_named(log_dir: Path | None) -> Iterator[None]:
    """Turn what is no LightworkError into one that says what, where, and which file says more.

    The traceback is appended to this rank's log in ``log_dir`` (``launcher.log`` before there are
    ranks), or to a new temporary file where ``log_dir`` is None.
    """
    try:
        yield
    except LightworkError:
        raise
    except Exception as error:
        log = _write("".join(traceback.format_exception(error)), log_dir)
        text = " ".join(str(error).split())
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise UnexpectedError(
            f"unexpected {type(error).__name__} in {_short(frame.filename)}, line {frame.lineno}"
            f"{': ' if text else ''}{text[:300]}; the whole traceback is in {log}"
        ) from error


def _short(filename: str) -> str:
    """A source file as ``package/module.py``."""
    return "/".join(Path(filename).parts[-2:])


def _write(text: str, log_dir: Path | None) -> Path:
    if log_dir is None:
        handle, name = tempfile.mkstemp(prefix="lightwork-", suffix=".log")
        os.close(handle)
        log = Path(name)
    else:
        rank = os.environ.get("RANK")
        log_dir.mkdir(parents=True, exist_ok=True)
        log = log_dir / (f"rank{rank}.log" if rank else "launcher.log")
    with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return log
