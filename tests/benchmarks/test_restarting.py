"""What a dead rank costs: the tables and verdicts, and in miniature the measuring itself."""

from __future__ import annotations

import pytest

from benchmarks import restarting
from benchmarks.restarting import PARTS, Times, reached, row, verdicts
from lightwork.comm.phases import Phase
from tests.benchmarks.documented import documented

COLD = Times(10.0, dict(zip(PARTS[2:], [11.0, 15.0, 16.0, 17.0], strict=True)))
FAST = Times(20.0, dict(zip(PARTS, [20.1, 20.2, 21.0, 25.0, 27.0, 28.5], strict=True)))
SLOW = Times(30.0, dict(zip(PARTS, [31.5, 31.6, 32.0, 36.0, 38.0, 40.0], strict=True)))


def test_the_slowest_is_judged() -> None:
    assert row("cold start", COLD) == "| cold start |  |  | 1.00 | 5.00 | 6.00 | 7.00 |"
    assert row("kill 1", FAST) == "| kill 1 | 0.10 | 0.20 | 1.00 | 5.00 | 7.00 | 8.50 |"
    assert verdicts([COLD, FAST]) == [
        "a death is seen: after 0.10 s at most; goal 1 s: met",
        "first step after a death: +1.50 s beside a cold start at most; goal +2 s: met",
    ]
    assert [text.rpartition(": ")[2] for text in verdicts([COLD, FAST, SLOW])] == ["missed"] * 2


@pytest.mark.parametrize(
    ("name", "step", "parts"),
    [
        ("start", 0, 1), ("meeting", 0, 1), ("build", 0, 2), ("evaluate", 0, 2), ("data", 31, 3),
        ("save", 31, 3), ("data", 32, 4),
    ],
)  # fmt: skip
def test_how_far_a_rank_is(name: str, step: int, parts: int) -> None:
    assert reached(Phase(7, step, 0.0, False, name, ""), 31 if step else 0) == parts
    assert reached(None, 0) == 0


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("command", documented("restarting"), ids=" ".join)
def test_it_measures(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    restarting.main([*command, "--kills", "1", "--model", "scratch"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("| seconds until | seen | others ended | processes up |")
    cold, kill = (
        [float(cell) for cell in line.strip("| ").split(" | ")[1:] if cell.strip()]
        for line in lines[3:5]
    )
    assert cold == sorted(cold)
    assert kill == sorted(kill)
    assert (len(cold), len(kill)) == (4, 6)
    assert 0 < kill[0] < 30
    assert [line.partition(":")[0] for line in lines[5:7]] == [
        "a death is seen", "first step after a death",
    ]  # fmt: skip
