"""The benchmark of the verdict notices what it is there for, and what explaining costs."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import explaining
from benchmarks.faults import NOTHING, Answer, Planted, faults
from benchmarks.verdict import matrix
from lightwork.report.explaining import explained
from lightwork.report.finding import Finding
from tests.conftest import ROOT
from tests.report.stepped import write_steps


def answer(folder: Path, planted: Planted, *found: Finding) -> Answer:
    if not (folder / "metrics").exists():
        write_steps(folder, [{}, {}])
    return Answer(planted, explained(folder)[0], list(found))


def finding(kind: str, **of: object) -> Finding:
    made = Finding("compute", "because", "do", 0.1, 1.1)
    return replace(made, kind=kind, **of)  # type: ignore[arg-type]


SLOW = next(row for row in faults() if row.fault == "slow_rank")
DIRTY = next(row for row in faults() if "steps" in row.given)
HOG = next(row for row in faults() if row.hog)


def test_what_is_as_planted_is_not_missed(tmp_path: Path) -> None:
    steps = tuple(DIRTY.given["steps"])
    for planted, found in (
        (NOTHING, finding("compute")),
        (SLOW, finding("straggler", rank=1, factor=SLOW.given["factor"] * 1.09)),
        (DIRTY, finding("spike", at_steps=steps, examples=("q1",))),
        (HOG, finding("straggler", rank=1, factor=1.7)),
        (HOG, finding("compute")),
    ):
        assert answer(tmp_path, planted, found).missed() is None, planted.name


def test_every_way_to_miss_is_one(tmp_path: Path) -> None:
    right = finding("straggler", rank=1, factor=SLOW.given["factor"])
    for planted, found in (
        (NOTHING, [finding("padding")]),
        (SLOW, [finding("compute")]),
        (SLOW, [right, finding("padding")]),
        (SLOW, [replace(right, rank=0)]),
        (SLOW, [replace(right, factor=SLOW.given["factor"] * 1.12)]),
        (DIRTY, [finding("spike", at_steps=(3,), examples=("q1",))]),
        (DIRTY, [finding("spike", at_steps=tuple(DIRTY.given["steps"]))]),
        (HOG, [finding("straggler", rank=0, factor=1.7)]),
        (HOG, [finding("imbalance")]),
    ):
        missed = answer(tmp_path, planted, *found)
        assert missed.missed() is not None, (planted.name, found)
        assert "busy_s" in missed.told()


def test_the_matrix_has_a_row_for_each_fault_and_counts(tmp_path: Path) -> None:
    rows = [
        answer(tmp_path, NOTHING, finding("compute")),
        answer(tmp_path, NOTHING, finding("padding")),
        answer(tmp_path, SLOW, finding("straggler")),
    ]
    assert matrix(rows).splitlines() == [
        "| planted | compute | straggler | padding |",
        "| --- | --: | --: | --: |",
        "| nothing | 1 |  | 1 |",
        f"| {SLOW.name} |  | 1 |  |",
    ]


def test_the_target_sets_itself_up_and_is_on_the_page() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^verdict: setup\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    for module in ("verdict", "explaining"):
        assert f"$(BIN)/python -m benchmarks.{module}\n" in recipe[1]
    assert "\nmake verdict\n" in (ROOT / "docs/timeline.md").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert "verdict" in phony[1].split()


def test_a_short_run_is_explained_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):  # on a busy machine the goals may be missed
        explaining.main(["--steps", "300", "--ranks", "2"])
    look, size, seconds, memory, facts = capsys.readouterr().out.splitlines()
    assert look.startswith("a look while it trains: ")
    assert size.startswith("300 steps on 2 ranks")
    assert seconds.startswith("from start to end: ")
    assert memory.startswith("memory: ")  # of the largest process that this one ever started
    assert "cores" in facts


@pytest.mark.long
def test_a_hundred_thousand_steps_on_eight_ranks_are_explained_in_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explaining.main([])
    assert capsys.readouterr().out.count(": met") == 2
