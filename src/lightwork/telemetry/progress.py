"""A bar for work that is counted before it begins; nothing where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lightwork.telemetry.terminal import terminal


@contextmanager
def counting(title: str, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Gives a function ``progress(done, total)`` that moves a bar called ``title``.

    ``shown``: False on all ranks but one, where several count the same.
    """
    console = terminal()
    if not shown or not console.is_terminal:
        yield lambda _done, _total: None
        return
    columns = (TextColumn(title), MofNCompleteColumn(), BarColumn(None), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
