"""Answers as a person reads them in a terminal or a pipe, and as a program reads them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from lightwork.assembly.answering import Found

NO_ANSWER = "(no answer)"
AROUND = 70
"""Characters of the context that are shown on either side of an answer."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""What could move the cursor of a terminal; white space is squeezed anyway."""


def as_json(found: Sequence[Found], context: str | None = None) -> list[dict[str, Any]]:
    """One object per answer; with a ``context``, the ``line`` of its start too, from 1."""
    entries = [asdict(one) for one in found]
    if context is not None:
        for entry, one in zip(entries, found, strict=True):
            entry["line"] = -1 if one.start < 0 else line_number(context, one.start)
    return entries


def line_number(context: str, start: int) -> int:
    """The line that character ``start`` stands in, counted from 1."""
    return context.count("\n", 0, start) + 1


def show(found: Sequence[Found], context: str, question: str | None) -> None:
    """Write the answers to standard output: in colour on a terminal, one a line otherwise.

    The ``question`` stands above them where several are asked.
    """
    if not sys.stdout.isatty():
        if question is not None:
            typer.echo(_one_line(question))
        for one in found:
            typer.echo(f"{_share(one)}{_place(one, context)}{_shown(one)}")
        return
    from rich.console import Console
    from rich.padding import Padding

    console = Console(highlight=False)
    for one in found:
        console.print(_headline(one, context))
        if one.start >= 0:
            console.print(Padding(_snippet(one, context), (0, 0, 0, len(_share(one)))))


def _share(one: Found) -> str:
    return f"{one.probability:6.1%}  "


def _place(one: Found, context: str) -> str:
    if one.start < 0:
        return ""
    return f"line {line_number(context, one.start)}, characters {one.start}-{one.end} of the text  "


def _shown(one: Found) -> str:
    return NO_ANSWER if one.start < 0 else _one_line(one.text)


def _one_line(text: str) -> str:
    return " ".join(_CONTROL.sub("", text).split())


def _headline(one: Found, context: str) -> Text:
    from rich.text import Text

    style = "dim" if one.start < 0 else "bold green"
    place = _place(one, context).rstrip()
    return Text.assemble(_share(one), (_shown(one), style), (f"  {place}" if place else "", "dim"))


def _snippet(one: Found, context: str) -> Text:
    """The answer in some of the text around it, cut between words where there are any."""
    from rich.text import Text

    first, last = max(0, one.start - AROUND), min(len(context), one.end + AROUND)
    before, after = context[first : one.start], context[one.end : last]
    if first > 0:
        before = "… " + before.partition(" ")[2] if " " in before.strip() else "…" + before
    if last < len(context):
        after = after.rpartition(" ")[0] + " …" if " " in after.strip() else after + "…"
    return Text.assemble(
        _squeezed(before).lstrip(), (_one_line(one.text), "bold green"), _squeezed(after).rstrip()
    )


def _squeezed(text: str) -> str:
    """One blank for every stretch of white space, at the edges too."""
    return re.sub(r"\s+", " ", _CONTROL.sub("", text))
