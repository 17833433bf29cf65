"""Logs of several ranks become one in the order of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import RunError
from lightwork.report.logs import read_logs

LOGS = {
    0: """what a library printed before the log began
2026-05-02 10:00:00,000 rank 0 INFO training data: 50 examples
2026-05-02 10:00:09,500 rank 0 INFO evaluation at step 3
2026-05-02 10:00:30,000 rank 0 INFO again
2026-05-02 10:00:40,000 rank 0 INFO again
""",
    1: """2026-05-02 10:00:00,900 rank 1 INFO training data: 50 examples
2026-05-02 10:00:08,250 rank 1 ERROR step 3 failed on this rank
Traceback (most recent call last):
  File "x.py", line 1
2026-05-02 10:00:36,000 rank 1 INFO again
""",
    10: "2026-05-02 10:00:01,000 rank 10 INFO training data: 50 examples\n",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for rank, text in LOGS.items():
        (tmp_path / f"logs/rank{rank}.log").write_text(text)
    return tmp_path


def test_all_in_order_and_the_same_words_once(run: Path) -> None:
    entries, ranks = read_logs(run)
    assert ranks == 3
    assert [entry.text(ranks) for entry in entries] == [
        "2026-05-02 10:00:00.000  all ranks  training data: 50 examples",
        "2026-05-02 10:00:08.250  rank 1  ERROR step 3 failed on this rank\n"
        "  Traceback (most recent call last):\n"
        '    File "x.py", line 1',
        "2026-05-02 10:00:09.500  rank 0  evaluation at step 3",
        "2026-05-02 10:00:30.000  rank 0  again",
        "2026-05-02 10:00:36.000  rank 0, 1  again",
    ]


def test_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no logs of ranks"):
        read_logs(tmp_path)
