"""The commands that docs/performance.md and the Makefile give, to be run in miniature."""

from __future__ import annotations

import re
import shlex

from tests.conftest import ROOT


def documented(module: str) -> list[list[str]]:
    """The arguments of each ``python -m benchmarks.MODULE`` on the page and in the Makefile."""
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    start = f"python -m benchmarks.{module}"
    found = [line.partition(start)[2] for line in lines if start in line]
    return [shlex.split(rest, comments=True) for rest in found]
