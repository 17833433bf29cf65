"""The benchmark of what records cost measures what a training does."""

from __future__ import annotations

import pytest

from benchmarks import telemetry
from lightwork.telemetry.recorder import MetricsFile
from lightwork.telemetry.records import StepRecord


def test_a_step_and_each_message_are_priced(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.main(["--steps", "30", "--buckets", "0,40"])
    step, message, sample, facts = capsys.readouterr().out.splitlines()
    assert step.startswith("a step with 0 messages: ")
    assert message.startswith("each further message: ")
    assert sample.startswith("a sample, once a second: ")
    assert "us; goal at most 300: m" in step
    assert "cores" in facts


def test_records_are_really_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    whole = MetricsFile.write

    def counted(file: MetricsFile, record: StepRecord) -> None:
        written.append(record.step)
        whole(file, record)

    monkeypatch.setattr(MetricsFile, "write", counted)
    assert telemetry.step_us(3, 5) > 0
    assert written == [0, 1, 2, 3, 4]
