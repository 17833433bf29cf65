"""The logs of all ranks of a run as one, in the order of time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from lightwork.errors import RunError

TOGETHER_S = 5.0
"""The same words on several ranks within so many seconds are one line."""
_HEAD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) rank (\d+) ([A-Z]+) (.*)")
_TIME = "%Y-%m-%d %H:%M:%S,%f"


@dataclass
class Entry:
    """What one rank wrote at one moment; or several, if they wrote the same."""

    at: datetime
    ranks: list[int]
    level: str
    lines: list[str] = field(default_factory=list)

    def text(self, ranks: int) -> str:
        """A line, and more below it where there are; ``ranks``: of how many logs."""
        who = "all ranks" if len(self.ranks) == ranks > 1 else f"rank {_listed(self.ranks)}"
        level = "" if self.level == "INFO" else f"{self.level} "
        head = f"{self.at:%Y-%m-%d %H:%M:%S}.{self.at.microsecond // 1000:03d}  {who}  {level}"
        return head + "\n  ".join(self.lines)


def read_logs(run: Path) -> tuple[list[Entry], int]:
    """All entries in order, the same words of several ranks as one; and how many logs there are.

    What processes printed past the log, such as a traceback, belongs to the entry above it. Raises
    RunError where there are no logs.
    """
    files = sorted(run.glob("logs/rank*.log"), key=lambda path: int(path.stem[4:]))
    if not files:
        raise RunError(f"{run} has no logs of ranks; name the folder of a run")
    entries = [entry for path in files for entry in _entries(path)]
    return together(sorted(entries, key=lambda entry: (entry.at, entry.ranks))), len(files)


def together(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of different ranks with the same words at nearly the same time as one."""
    shown: list[Entry] = []
    last: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        words = (entry.level, *entry.lines)
        known = last.get(words)
        near = known is not None and (entry.at - known.at).total_seconds() <= TOGETHER_S
        if known is not None and near and entry.ranks[0] not in known.ranks:
            known.ranks.extend(entry.ranks)
            continue
        last[words] = entry
        shown.append(entry)
    return shown


def _entries(path: Path) -> Iterator[Entry]:
    current: Entry | None = None
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        head = _HEAD.fullmatch(line)
        if head is not None:
            if current is not None:
                yield current
            at = datetime.strptime(head[1], _TIME)
            current = Entry(at, [int(head[2])], head[3], [head[4]])
        elif current is not None:
            current.lines.append(line)
    if current is not None:
        yield current


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
