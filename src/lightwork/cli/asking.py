"""Where a text and the questions about it come from: a file, standard input, a person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import typer

from lightwork.errors import DataError, SettingsError
from lightwork.settings import check_files

STDIN = "-"
NOT_UTF8 = "the question is not valid UTF-8; use a UTF-8 terminal"


def usable(question: str) -> str:
    """The question as it is; SettingsError where it cannot be asked."""
    if not question.strip():
        raise SettingsError("the question is blank; give one, or none to be asked for some")
    try:
        question.encode()
    except UnicodeEncodeError:
        raise SettingsError(NOT_UTF8) from None
    return question


def read_text(context: str) -> str:
    """The whole text of a file or of standard input, unchanged but for a byte-order mark.

    Raises SettingsError for a path that is no file, DataError for what is not UTF-8 or blank.
    """
    if context == STDIN:
        name, content = "standard input", sys.stdin.buffer.read()
    else:
        (path,) = check_files("--context", [context])
        name = context
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"--context: cannot read {path} ({error.strerror})") from None
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(
            f"--context: {name} is not valid UTF-8 at byte {error.start}; save it as UTF-8 text"
        ) from None
    if not text.strip():
        raise DataError(f"--context: there is no text in {name}, so there are no answers in it")
    return text


def lines() -> Iterator[str]:
    """The lines of standard input that are not blank."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            question = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise DataError(
                f"standard input: line {number} is not valid UTF-8; write questions as UTF-8"
            ) from None
        if question:
            yield question


def converse(tell: Callable[[str], None]) -> None:
    """``tell`` every question typed, until an empty line, Ctrl-D or Ctrl-C: all are a good end."""
    with suppress(ImportError):
        import readline  # noqa: F401 - gives input() a history and keys for editing
    typer.echo("ask about the text; an empty line ends", err=True)
    try:
        while question := _prompted():
            tell(usable(question))
    except (EOFError, KeyboardInterrupt):
        typer.echo(err=True)  # the next prompt of the shell begins on a line of its own
    except UnicodeDecodeError:
        raise DataError(NOT_UTF8) from None


def _prompted() -> str:
    """One line from the terminal; the prompt never goes into a file or a pipe."""
    if sys.stdout.isatty():
        return input("? ").strip()
    typer.echo("? ", nl=False, err=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()
