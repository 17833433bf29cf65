"""Records are read back whatever a kill left of them, and no more of a file than is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightwork.telemetry.lines import json_lines, read_evaluations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.jsonl"


def test_no_file_has_no_lines(path: Path) -> None:
    assert json_lines(path) == []
    assert json_lines(path, 10) == []


def test_what_is_no_object_is_left_out(path: Path) -> None:
    path.write_bytes(b'{"step": 1}\n{"step": 2, "lo\n[3]\n\xff{"step": 3}\n\n{"step": 4}\n{"step"')
    assert [entry["step"] for entry in json_lines(path)] == [1, 4]


def test_only_whole_lines_of_the_end(path: Path) -> None:
    """A line that begins before the border is left out, one that begins on it is not."""
    lines = [json.dumps({"step": step}) + "\n" for step in (8, 9, 10, 111)]
    path.write_text("".join(lines))
    starts = [sum(map(len, lines[number:])) for number in range(len(lines))]
    for last_bytes in range(1, 60):
        fitting = [
            json.loads(line)
            for line, start in zip(lines, starts, strict=True)
            if start <= last_bytes
        ]
        assert json_lines(path, last_bytes) == fitting, last_bytes


def test_of_a_huge_file_only_the_end_is_read(path: Path) -> None:
    """A file with a hole of 8 GB takes no room and could not be read whole."""
    with path.open("wb") as file:
        file.truncate(8 << 30)
        file.seek(0, 2)
        file.write(b'\n{"step": 7}\n')
    assert json_lines(path, 4096) == [{"step": 7}]


def test_the_last_evaluation_of_a_step_counts(tmp_path: Path) -> None:
    (tmp_path / "evaluations.jsonl").write_text(
        '{"step": 4, "f1": 1.5, "total": 2}\n{"f1": 3.0}\n{"step": 8, "f1": 2.5}\n'
        '{"step": 4, "f1": 9.5, "note": "again"}\n{"step": 12, "f'
    )
    assert read_evaluations(tmp_path) == {4: {"f1": 9.5}, 8: {"f1": 2.5}}
