"""A group one of whose messages goes wrong."""

from __future__ import annotations

import threading
from typing import Any

from lightwork.comm.group import Group
from lightwork.comm.lane import Lane
from lightwork.comm.message import Pending

VERBS = ("all_reduce", "all_gather", "broadcast", "exchange")
KINDS = ("raises", "fails in wait", "stalls", "goes away")


class Faults:
    """What happens at message number ``at`` of a rank, of whatever verb; ``at`` None: nothing."""

    def __init__(self, kind: str, at: int | None) -> None:
        self.kind, self.at = kind, at
        self.count = 0
        self.over = threading.Event()
        """Set when the other ranks have ended: what stalls goes on then, to no end."""

    def happen(self, group: Group) -> bool:
        """Whether the message at hand goes wrong."""
        self.count += 1
        if self.count - 1 != self.at:
            return False
        if self.kind == "raises":
            raise RuntimeError("planted")
        if self.kind == "goes away":
            group.abort()
        if self.kind == "stalls":
            self.over.wait(60)
        return self.kind == "fails in wait"


class Failing:
    """A message that is sent, but of which this rank cannot hear."""

    def __init__(self, message: Pending) -> None:
        self._message = message

    def wait(self) -> Any:
        raise ValueError("planted")

    def done(self) -> bool:
        return False


class FaultyGroup:
    """A Group but for its faults; its lanes have them, too."""

    def __init__(self, group: Group, faults: Faults) -> None:
        self._group, self._faults = group, faults

    def __getattr__(self, name: str) -> Any:
        if name not in VERBS:
            return getattr(self._group, name)

        def verb(*arguments: Any) -> Any:
            fails = self._faults.happen(self._group)
            message = getattr(self._group, name)(*arguments)
            return Failing(message) if fails else message

        return verb

    def gather_json(self, value: Any) -> list[Any]:
        return Group.gather_json(self, value)  # type: ignore[arg-type]

    def lane(self) -> Lane:
        lane = self._group.lane()
        lane.group = FaultyGroup(lane.group, self._faults)  # type: ignore[assignment]
        return lane
