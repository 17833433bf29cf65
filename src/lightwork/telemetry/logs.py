"""One log file per rank, and the terminal for rank 0."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.highlighter import NullHighlighter
from rich.logging import RichHandler

from lightwork.telemetry.terminal import terminal


@contextmanager
def logging_to(folder: Path | None, rank: int) -> Iterator[logging.Logger]:
    """Send the ``lightwork`` log to ``folder/rank<N>.log`` and, on rank 0, to standard error.

    ``folder`` None: no file. The terminal shows messages as they are; files add time and level.
    """
    logger = logging.getLogger("lightwork")
    handlers: list[logging.Handler] = []
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = logging.FileHandler(folder / f"rank{rank}.log", encoding="utf-8")
        form = f"%(asctime)s rank {rank} %(levelname)s %(message)s"
        file.setFormatter(logging.Formatter(form))
        handlers.append(file)
    if rank == 0:
        handlers.append(_terminal())
    before = (logger.level, logger.propagate)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def _terminal() -> logging.Handler:
    """Plain lines; on a terminal rich writes them above a running bar."""
    if not terminal().is_terminal:
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        return handler
    return RichHandler(
        console=terminal(),
        show_time=False,
        show_level=False,
        show_path=False,
        markup=False,
        highlighter=NullHighlighter(),
    )
