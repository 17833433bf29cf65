"""What a plan costs, in miniature, and how it is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import planning
from benchmarks.planning import Cost, row, verdicts, write_store
from lightwork.data.store import Store
from tests.benchmarks.documented import documented

SMALL = Cost(most_bytes=9.34, steady_bytes=5.0, first_batch_s={"0": 0.5, "9": 0.4})
LARGE = Cost(most_bytes=24.1, steady_bytes=4.0, first_batch_s={"0": 0.3, "9": 1.01})


def test_the_rank_that_needs_the_most_is_shown_and_judged() -> None:
    assert row(2_000_000, [SMALL, LARGE]) == "| 2,000,000 | 24.1 | 5.0 | 0.50 | 1.01 |"
    assert verdicts([SMALL]) == [
        "memory: 9.3 bytes a window and rank at most; goal 24: met",
        "first batch of an epoch: after 0.50 s at most; goal 1 s: met",
    ]
    assert [line.rpartition(": ")[2] for line in verdicts([SMALL, LARGE])] == ["missed"] * 2


def test_made_windows_are_as_long_as_real_ones(tmp_path: Path) -> None:
    write_store(tmp_path / "windows", 100_000)  # in two pieces
    lengths = Store(tmp_path / "windows").column("tokens")
    assert len(lengths) == 100_000
    assert 165 < lengths.mean() < 185
    assert lengths.max() == 384
    assert lengths.min() >= 12


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("command", documented("planning"), ids=" ".join)
def test_the_commands_measure(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    planning.main([*command, "--windows", "20000", "--epochs", "0,3", "--batch", "8"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("| first batch of epoch 0, s | first batch of epoch 3, s |")
    cells = [float(cell.replace(",", "")) for cell in lines[3].strip("| ").split(" | ")]
    assert cells[0] == 20_000
    assert 4 < cells[1] < 1000, "the order alone has 4 bytes a window"
    assert all(0 <= seconds < 60 for seconds in cells[3:])
    assert [line.partition(":")[0] for line in lines[4:6]] == ["memory", "first batch of an epoch"]


def test_a_process_that_fails_is_told() -> None:
    with pytest.raises(SystemExit, match="a process failed"):
        planning.costs(10, batch=0, ranks=1, epochs=[0])
