"""Signals that ask a process to leave: where they end it, and where they are only noted."""

from __future__ import annotations

import os
import signal

import pytest

from lightwork.comm import signals
from lightwork.comm.signals import ASKING, Stopped, StopSignals, name_of


def ask(signum: int) -> None:
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", ASKING)
def test_the_first_one_ends_what_nobody_heeds(signum: int) -> None:
    with StopSignals(), pytest.raises(Stopped) as caught:
        ask(signum)
    assert caught.value.code == 128 + signum


def test_one_that_is_heeded_is_noted_and_so_is_its_echo() -> None:
    with StopSignals() as asked, asked.heeded():
        assert asked.received == 0
        ask(signal.SIGUSR1)
        ask(signal.SIGTERM)
        assert asked.received == signal.SIGUSR1


def test_who_insists_is_obeyed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "INSIST_AFTER_S", 0.0)
    with StopSignals() as asked, asked.heeded():
        ask(signal.SIGTERM)
        with pytest.raises(Stopped) as caught:
            ask(signal.SIGINT)
    assert caught.value.code == 128 + signal.SIGTERM, "by the first"


def test_a_part_that_can_be_left_at_once() -> None:
    with StopSignals() as asked, asked.heeded():
        with asked.at_once(), pytest.raises(Stopped):
            ask(signal.SIGINT)
        ask(signal.SIGINT)  # heeded again
        with pytest.raises(Stopped), asked.at_once():
            pytest.fail("it was entered although it was known that this process is to leave")


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in ASKING]
    with StopSignals():
        assert [signal.getsignal(number) for number in ASKING] != before
    assert [signal.getsignal(number) for number in ASKING] == before


def test_names() -> None:
    assert [name_of(number) for number in ASKING] == ["SIGINT", "SIGTERM", "SIGUSR1"]
