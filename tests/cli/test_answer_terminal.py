"""`lightwork answer` at a terminal: questions typed, answers in colour, every key a good end."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lightwork.assembly.answering import Answerer, Found
from lightwork.cli.answer_display import show
from tests.assembly.made import filler
from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("notes")


class Keyboard(io.TextIOWrapper):
    """A terminal at which somebody types these bytes, and Ctrl-C at the end if so."""

    def __init__(self, content: bytes, interrupt: bool = False) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self.interrupt = interrupt

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> Any:
        line = super().readline()
        if not line and self.interrupt:
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(
    ("typed", "interrupt", "ends"),
    [
        (b"Who?\nWho else?\n\nWho never?\n", False, "? "),
        (b"Who?\nWho else?\n", False, "? \n"),
        (b"Who?\nWho else?\n", True, "? \n"),
    ],
)
def test_questions_at_a_terminal_until_an_empty_line_or_key(
    amber: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    typed: bytes,
    interrupt: bool,
    ends: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard(typed, interrupt))
    ended = command("answer", str(amber), "--context", "notes.txt", "--json")
    assert ended.code == 0
    questions = [json.loads(line)["question"] for line in ended.out.splitlines()]
    assert questions == ["Who?", "Who else?"], "no prompt goes to standard output"
    assert ended.err == "ask about the text; an empty line ends\n? ? " + ends


def test_interrupted_while_it_answers_a_terminal(
    amber: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Answerer, "answer", interrupted)
    monkeypatch.setattr(sys, "stdin", Keyboard(b"Who?\n"))
    assert command("answer", str(amber), "--context", "notes.txt").code == 0
    assert command("answer", str(amber), "--context", "notes.txt", "Who?").code == 130


def test_a_terminal_shows_the_answer_in_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    context = f"{filler(0, 40)} [bold]\n\x1b[2Jthe  big\n amber\tbell {filler(40, 40)}"
    start = context.index("big")
    show([Found("big\n amber", 0.625, start, start + 10), Found("", 0.375, -1, -1)], context, None)
    out = capsys.readouterr().out
    assert "\x1b[1;32mbig amber\x1b[0m" in out
    assert "\x1b[2J" not in out, "nothing in a text moves the cursor"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert plain[0] == f" 62.5%  big amber  line 2, characters {start}-{start + 10} of the text"
    shown = " ".join(" ".join(plain[1:-1]).split())
    assert re.fullmatch(r"… w2\d .*w39 \[bold\] \[2Jthe big amber bell w40 .* w5\d …", shown)
    assert all(line.startswith(" " * 8) and len(line) <= 60 for line in plain[1:-1])
    assert plain[-1] == " 37.5%  (no answer)"


def test_a_text_without_blanks_is_cut_anywhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    context = "望江塔建" * 100
    show([Found("江塔", 1.0, 201, 203)], context, None)
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert out.splitlines()[1].strip() == f"…{context[131:273]}…"


def heard(terminal: int, until: bytes) -> bytes:
    """What the terminal shows up to ``until``, or to its end."""
    said = b""
    while not until or until not in said.replace(b"\r", b""):
        assert select.select([terminal], [], [], 120)[0], f"nothing came after {said[-300:]!r}"
        try:
            said += os.read(terminal, 1 << 16)
        except OSError:  # the terminal is gone with the process
            break
    return said


@pytest.mark.processes
@pytest.mark.slow
def test_a_real_terminal(amber: Path) -> None:
    """Asked, answered in colour, and left by Ctrl-C."""
    words = ["answer", str(amber), "--context", "notes.txt", "--device", "cpu"]
    command = [sys.executable, "-m", "lightwork", *words]
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="80")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, command)
    try:
        heard(terminal, b"\n? ")
        os.write(terminal, b"Who is it ?\n")
        assert b"\x1b[1;32mamber\x1b[0m" in heard(terminal, b"\n? ")
        # Python's readline loses a signal that comes between its prompt and its wait for keys.
        time.sleep(1)
        os.write(terminal, b"\x03")
        left = heard(terminal, b"")
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"Traceback" not in left
