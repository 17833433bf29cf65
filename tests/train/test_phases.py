"""What ranks say while they do a step, for whoever looks at them from outside."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from lightwork.comm import phases
from lightwork.comm.group import Group
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.telemetry.timing import StepClock
from tests.ranks import run_as_threads
from tests.train.toy import ToyTask, toy_run


class Heard:
    """Stands for the slots of ranks that are threads: the words of each, in order."""

    def __init__(self) -> None:
        self._words: dict[int, list[str]] = defaultdict(list)

    def note(self, word: str) -> None:
        self._words[threading.get_ident()].append(word)

    def enter(self, name: str, step: int | None = None) -> None:
        self.note(name)

    def work_on(self, examples: str) -> None:
        self.note(f"on {examples}")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.note("waits")
        yield
        self.note("goes on")

    def here(self) -> list[str]:
        return self._words[threading.get_ident()]


def test_the_phases_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setattr(phases, "_OPEN", [heard])

    def one_step(group: Group) -> list[str]:
        stepper, loader, _ = toy_run(group, GradientBuckets(AllReduce(group), 64), ToyTask())
        heard.here().clear()
        (work,) = loader.work(1, 1)
        stepper.run(1, work, 0.05, StepClock(torch.device("cpu")))
        return list(heard.here())

    for words in run_as_threads(2, one_step):
        kinds = ["copy", "forward", "backward", "sync", "control", "optimizer"]
        last = {word: place for place, word in enumerate(words)}
        assert sorted(kinds, key=lambda kind: last[kind]) == kinds
        assert words.count("forward") == words.count("backward") > 1, "several micro-batches"
        assert all(
            words[place - 1].startswith("on ") for place, word in enumerate(words) if word == "copy"
        )
        assert words[words.index("control") + 1 :][:2] == ["waits", "goes on"]
        assert "waits" in words[words.index("sync") : words.index("control")]
        assert words.count("waits") == words.count("goes on")
