"""The table as it is read on a terminal and in a file."""

from __future__ import annotations

import io

from rich.console import Console

from lightwork.verify.table import outcome, show
from lightwork.verify.verdict import Verdict, one_rank

VERDICTS = [
    Verdict("shuffles", True, "0 of 8 batches"),
    Verdict("gradients", False, f"relative error 0.5 [bold]in {'long ' * 30}x.weight"),
    one_rank("replicas after steps"),
]


def shown(terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=60, color_system=None)
    show(console, "2 ranks on cpu", VERDICTS)
    return file.getvalue()


def test_plain_lines_are_never_wrapped() -> None:
    assert shown(terminal=False).splitlines() == [
        "2 ranks on cpu",
        "pass  shuffles              0 of 8 batches",
        f"FAIL  gradients             relative error 0.5 [bold]in {'long ' * 30}x.weight",
        "-     replicas after steps  not checked: one rank",
        "1 passed, 1 failed, 1 not checked",
    ]


def test_a_terminal_has_a_table_that_fits() -> None:
    lines = shown(terminal=True).splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) > 8
    text = " ".join(" ".join(lines).split())
    for word in ("what", "found", "FAIL", "[bold]in", "x.weight", "not checked: one rank"):
        assert word in text
    assert lines[-1] == "1 passed, 1 failed, 1 not checked"


def test_what_did_not_happen_is_not_counted() -> None:
    assert outcome(VERDICTS[:1]) == "1 passed"
    assert outcome([VERDICTS[0]] * 10 + VERDICTS[2:]) == "10 passed, 1 not checked"
