"""Every block of the walk-through runs, and prints what the page says it prints."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path

import pytest

from tests.api.test_endings import start
from tests.conftest import ROOT

PAGE = (ROOT / "docs/from-one-card-to-many.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
RUNNER = """
import io, json, os, sys
from contextlib import redirect_stdout

names, printed = {"__name__": "__main__"}, []
for number, block in enumerate(json.loads(open("blocks.json").read()), 1):
    with redirect_stdout(io.StringIO()) as output:
        exec(compile(block, f"block {number}", "exec"), names)
    printed.append(output.getvalue())
with open("printed.json", "w") as file:
    file.write(json.dumps(printed))
os._exit(0)  # the gloo groups of plain PyTorch in a block may abort a process while Python ends
"""


@pytest.mark.processes
def test_every_block_prints_what_the_page_says(tmp_path: Path) -> None:
    assert len(PYTHON) == 12, "one for each pitfall"
    (tmp_path / "blocks.json").write_text(json.dumps(PYTHON))
    (tmp_path / "runner.py").write_text(RUNNER)
    ended = start(tmp_path, "runner.py")
    assert ended.returncode == 0, ended.stderr
    printed = json.loads((tmp_path / "printed.json").read_text())
    for block, found in zip(PYTHON, printed, strict=True):
        claimed = [line[2:] for line in block.splitlines() if line.startswith("# ")]
        assert found.splitlines() == claimed, block


def test_the_change_that_is_shown_is_the_one_of_the_examples() -> None:
    single, own = (
        (ROOT / f"examples/{name}.py").read_text().splitlines()
        for name in ("own_script_single", "own_script")
    )
    changes = [
        line
        for line in difflib.unified_diff(single, own, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    (shown,) = (text.splitlines() for kind, text in BLOCKS if kind == "diff")
    assert shown == changes


def test_it_stays_short() -> None:
    assert len(PAGE.splitlines()) <= 340
    assert max(len(block.splitlines()) for block in PYTHON) <= 24
