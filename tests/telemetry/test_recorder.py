"""Records on disk and on the screen."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest
import torch
from rich.console import Console

from lightwork.errors import RunError
from lightwork.telemetry.logs import logging_to
from lightwork.telemetry.recorder import MetricsFile, StepDisplay
from lightwork.telemetry.records import StepRecord
from lightwork.telemetry.timing import StepClock


def record(step: int, loss: float = 1.5) -> StepRecord:
    return StepRecord(
        step=step, epoch=0, rank=1, attempt=1, time_unix_s=0.0, loss=loss, rank_loss=None,
        grad_norm=2.0, rank_grad_norm=None, learning_rate=1e-3, loss_scale=1.0,
        applied=True, windows=4, micro_batches=1, batch_windows=16,
        real_tokens=100, padded_tokens=120, duties_s=0.0, step_s=0.5, data_s=0.0, copy_s=0.0,
        forward_s=0.1, backward_s=0.2, sync_s=0.0, optimizer_s=0.1, wait_s=0.0, transfer_s=0.0,
        other_s=0.1, busy_s=0.3, slowest_rank=1, slowest_busy_s=0.3, hidden_sync_s=0.0,
        sent_bytes=0, transfer_bytes_per_s=None, bucket_ready_s=[], memory_bytes=1,
    )  # fmt: skip


def test_rates_come_from_what_was_counted(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path, 1)
    file.write(record(1))
    file.close()
    (line,) = (tmp_path / "rank1.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert entry["windows_per_s"] == 8
    assert entry["batch_windows_per_s"] == 32
    assert entry["real_tokens_per_s"] == 200
    assert entry["padded_tokens_per_s"] == 240


def test_half_a_line_left_by_a_kill_does_not_spoil_the_next(tmp_path: Path) -> None:
    (tmp_path / "rank0.jsonl").write_text('{"step": 1}\n{"step": 2, "lo')
    file = MetricsFile(tmp_path, 0)
    file.write(record(2))
    file.close()
    lines = (tmp_path / "rank0.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert json.loads(lines[2])["step"] == 2


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_every_line_is_json(tmp_path: Path, loss: float) -> None:
    file = MetricsFile(tmp_path, 0)
    file.write(record(1, loss))
    file.close()

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    line = (tmp_path / "rank0.jsonl").read_text()
    assert json.loads(line, parse_constant=refuse)["loss"] in {"nan", "inf"}


def test_without_a_terminal_there_are_plain_lines(caplog: pytest.LogCaptureFixture) -> None:
    console = Console(file=io.StringIO())
    with (
        caplog.at_level(logging.INFO, logger="lightwork"),
        StepDisplay(5, every=2, console=console) as display,
    ):
        for step in range(1, 6):
            display.show(record(step))
    said = [message.split()[1] for message in caplog.messages]
    assert said == ["2/5", "4/5", "5/5"]
    assert "loss 1.500" in caplog.messages[0]
    assert caplog.messages[-1].endswith("0:00:00 left")


def test_on_a_terminal_there_is_a_bar(caplog: pytest.LogCaptureFixture) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with StepDisplay(5, every=2, console=console) as display:
        display.show(record(3))
    assert "3/5" in screen.getvalue()
    assert not caplog.messages


def test_only_rank_0_speaks_and_every_rank_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        with logging_to(tmp_path, rank) as logger:
            logger.info("hello from %d", rank)
    assert capsys.readouterr().err == "hello from 0\n"
    for rank in (0, 1):
        assert f"hello from {rank}" in (tmp_path / f"rank{rank}.log").read_text()
    assert not logging.getLogger("lightwork").handlers


def test_parts_of_a_step_add_up() -> None:
    clock = StepClock(torch.device("cpu"))
    for _ in range(2):
        with clock.part("forward"):
            pass
    clock.add("data", 1.0)
    clock.stop()
    seconds = clock.seconds()
    assert set(seconds) == {"forward", "data", "step", "blocked"}
    assert seconds["data"] == 1.0
    assert 0 < seconds["forward"] <= seconds["step"]
    assert clock.ready()


def test_no_room_for_a_record_is_an_error_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = MetricsFile(tmp_path, 1)

    class Full:
        def write(self, _: bytes) -> None:
            raise OSError(28, "No space left on device")

    file.close()
    monkeypatch.setattr(file, "_file", Full())
    with pytest.raises(
        RunError, match=r"rank1\.jsonl \(No space left on device\); make room"
    ) as caught:
        file.write(record(1))
    assert not caught.value.joint
