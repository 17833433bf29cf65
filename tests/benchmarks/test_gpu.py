"""The GPU script in miniature, on whatever device there is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.gpu_peers import made_questions
from benchmarks.gpu_sections import SECTIONS, Case
from benchmarks.gpu_steps import Course, Trial, busy_share, make_batch, make_step, seconds_per_call
from lightwork.tasks.extractive.reading import read_examples

TINY = Course(
    device=torch.device("cpu"),
    source=None,
    miniature=True,
    case_s=0.0,
    left_s=lambda: 1000.0,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of a busy machine wait for each other at every tiny operation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_all_sections_are_measured_or_say_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name in SECTIONS if name != "peers"]
    out = tmp_path / "gpu.json"
    gpu.main(["--miniature", "--out", str(out), "--sections", ",".join(names)])
    written = json.loads(out.read_text())
    rows = written["rows"]
    assert list(dict.fromkeys(row["section"] for row in rows)) == names
    measured = [row for row in rows if not row["note"]]
    assert {row["section"] for row in measured} >= {"precision", "attention", "optimizer"}
    assert all(row["step_ms"] > 0 for row in measured)
    if not torch.cuda.is_available():
        missing = {row["case"]: row["note"] for row in rows if row["note"]}
        assert set(missing.values()) == {"not measured: no CUDA"}
        assert "fp32, matrix products in TF32" in missing
        assert {row["section"] for row in rows} - {row["section"] for row in measured} == {"gaps"}
    assert written["versions"]["torch"] == torch.__version__
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(shown) == len(rows) + 2
    assert {line.count("|") for line in shown} == {8}


def test_no_case_begins_when_the_time_is_up(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    gpu.main(
        ["--miniature", "--minutes", "0.1", "--sections", "optimizer,peers", "--out", str(out)]
    )
    notes = [row["note"] for row in json.loads(out.read_text())["rows"]]
    assert len(notes) == 4
    assert all(note.startswith("not measured: needs 15 s, ") for note in notes[:3])


def test_a_failing_case_is_noted_and_the_next_one_is_measured() -> None:
    def out_of_memory() -> dict[str, float]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    def no_kernel() -> dict[str, float]:
        raise RuntimeError("No available kernel.\nmore lines")

    cases: Iterator[Case] = iter(
        [
            Case("a", out_of_memory),
            Case("b", no_kernel),
            Case("c", lambda: {"step_ms": 1.0, "idle_percent": 12.5}),
            Case("d", dict, needs_s=2000),
        ]
    )
    report = gpu.Report({})
    gpu.run_section(report, "s", cases, TINY.left_s)
    assert [(row["case"], row["note"]) for row in report.rows] == [
        ("a", "out of memory"),
        ("b", "not measured: No available kernel."),
        ("c", ""),
        ("d", "not measured: needs 2000 s, 1000 s are left"),
    ]
    assert report.rows[2]["idle_percent"] == 12.5


def test_the_sweep_ends_with_the_first_size_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def limited(_: Course, trial: Trial) -> dict[str, float]:
        assert trial.tokens is not None
        tried.append(trial.tokens)
        if trial.tokens > 40_000:
            raise torch.OutOfMemoryError("full")
        return {"step_ms": 1.0}

    monkeypatch.setattr("benchmarks.gpu_sections.measure_steps", limited)
    report = gpu.Report({})
    course = replace(TINY, miniature=False)
    gpu.run_section(report, "micro-batch", SECTIONS["micro-batch"](course), course.left_s)
    assert tried == [8192, 16384, 32768, 65536]
    assert [row["note"] for row in report.rows[:4]] == ["", "", "", "out of memory"]


def test_busy_time_counts_overlapping_kernels_once() -> None:
    assert busy_share([(0, 2), (1, 3), (6, 8), (7, 7.5)]) == 5 / 8
    assert busy_share([(5, 6)]) == 1
    with pytest.raises(RuntimeError, match="saw no kernel"):
        busy_share([])


def test_windows_fill_half_to_all_of_their_length_or_all_without_a_mask() -> None:
    padded = make_batch(TINY, Trial(tokens=640, length=32))
    real = padded["attention_mask"].sum(dim=1)
    assert padded["input_ids"].shape == (20, 32)
    assert real.min() >= 16
    assert len(real.unique()) > 3
    assert torch.equal(padded["allowed"], padded["attention_mask"].bool())
    assert (padded["start"] < real).all()
    full = make_batch(TINY, Trial(tokens=640, length=32, padded=False))
    assert "attention_mask" not in full
    assert full["allowed"].all()


def test_a_step_trains_and_is_called_as_often_as_it_is_timed() -> None:
    step, windows, tokens = make_step(TINY, Trial())
    assert (windows, tokens) == (2, 64)
    step()
    calls = []

    def call() -> None:
        calls.append(1)
        time.sleep(0.01)

    assert seconds_per_call(replace(TINY, case_s=0.3), call) >= 0.01
    assert 3 + 1 + 3 <= len(calls) <= 3 + 1 + 30


def test_unknown_sections_are_refused() -> None:
    with pytest.raises(SystemExit, match="speed is not known; choose from precision"):
        gpu.main(["--sections", "speed"])


def test_made_questions_can_be_read_and_vary_in_length(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_text(json.dumps(made_questions(60, 100)))
    lengths = [len(example.context.split()) for example in read_examples([path])]
    assert len(lengths) == 60
    assert 10 <= min(lengths) < 30
    assert 80 < max(lengths) <= 100


@pytest.mark.slow
@pytest.mark.processes
def test_lightwork_and_the_tuned_trainer_race_on_one_device(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    out = tmp_path / "gpu.json"
    gpu.main(["--miniature", "--sections", "peers", "--out", str(out)])
    (row,) = json.loads(out.read_text())["rows"]
    assert row["note"] == ""
    assert row["ratio"] > 0
    assert row["memory_ratio"] > 0
