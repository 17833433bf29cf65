"""``make steps``, ``make exact`` and ``make planning`` do what the page says."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks.documented import documented
from tests.conftest import ROOT

TARGETS = {"steps": "steps", "exact": "exactness", "planning": "planning"}


@pytest.mark.parametrize(("target", "module"), TARGETS.items())
def test_a_target_sets_itself_up_and_is_on_the_page(target: str, module: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{target}: setup\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    assert f"$(BIN)/python -m benchmarks.{module}" in recipe[1]
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert target in phony[1].split()
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert f"\nmake {target} " in page.partition("## Steps side by side")[2]
    assert len(documented(module)) >= 2, "that of the target, and on the page"
