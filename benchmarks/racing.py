"""One contender at a time: start its command, note its steps, its end and its memory."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.adapters.spec import Spec
from benchmarks.contenders import Contender, Scores
from lightwork.errors import LightworkError

ROOT = Path(__file__).resolve().parents[1]
GRACE_S = 30.0


@dataclass(frozen=True)
class Outcome:
    """What one run of a contender came to."""

    contender: str
    repeat: int
    command: list[str]
    wall_s: float
    """From the start of the command to its end."""
    first_step_s: float
    """From the start of the command to the end of the first optimizer step."""
    step_s: list[float]
    """Seconds from the end of one step to the end of the next, from the second step on."""
    step_windows: list[int]
    """New windows behind the same steps."""
    losses: dict[int, float]
    peak_memory_bytes: int
    """The most that any single process of the command held at a time; on CUDA, the most that
    rank 0 held on its device."""
    threads: int | None
    """Compute threads of a rank, where it says so."""
    scores: Scores = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the file of results."""
        return asdict(self)


@dataclass(frozen=True)
class Steps:
    """What a contender noted of its steps."""

    ended_unix_s: dict[int, float]
    losses: dict[int, float]
    facts: dict[str, int]


def read_steps(path: Path) -> Steps:
    """Read JSON lines of lightwork's metrics or of a peer's step log."""
    steps = Steps({}, {}, {})
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        number = entry.get("step")
        if number is None:
            steps.facts.update(entry)
            continue
        if "time_unix_s" in entry:
            steps.ended_unix_s[number] = entry["time_unix_s"]
        if "memory_bytes" in entry:
            steps.facts["device_memory_bytes"] = entry["memory_bytes"]
        if "loss" in entry:
            steps.losses[number] = entry["loss"]
    return steps


def race(contender: Contender, spec: Spec, repeat: int, timeout_s: float) -> Outcome:
    """Run ``contender`` and wait for it.

    Raises:
        LightworkError: it failed, or did other work than it was given.
    """
    out = Path(spec.out)
    out.mkdir(parents=True)
    command = contender.command(spec)
    log = out / "log.txt"
    started_unix_s = time.time()
    code, wall_s, peak_memory_bytes = run_command(command, log, timeout_s)
    if code != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise LightworkError(f"{contender.name} ended with {code}; the end of its output:\n{tail}")
    steps = read_steps(out / contender.steps)
    _check(contender, spec, steps)
    if spec.device == "cuda":
        peak_memory_bytes = steps.facts["device_memory_bytes"]
    ended = [steps.ended_unix_s[number] for number in range(1, spec.steps + 1)]
    return Outcome(
        contender=contender.name,
        repeat=repeat,
        command=command,
        wall_s=wall_s,
        first_step_s=ended[0] - started_unix_s,
        step_s=[after - before for before, after in itertools.pairwise(ended)],
        step_windows=[spec.step_windows(number) for number in range(2, spec.steps + 1)],
        losses=steps.losses,
        peak_memory_bytes=peak_memory_bytes,
        threads=steps.facts.get("threads"),
        scores=contender.scores(spec) if spec.whole else {},
    )


def _check(contender: Contender, spec: Spec, steps: Steps) -> None:
    """All contenders do the same number of steps on the same number of ranks and threads."""
    done, ranks = sorted(steps.ended_unix_s), steps.facts.get("ranks", spec.ranks)
    if done != list(range(1, spec.steps + 1)) or ranks != spec.ranks:
        raise LightworkError(
            f"{contender.name} did {len(done)} steps on {ranks} ranks, but was given {spec.steps} "
            f"steps on {spec.ranks}; its output is in {spec.out}"
        )
    if steps.facts.get("threads", 1) != 1:
        raise LightworkError(
            f"{contender.name} computes with {steps.facts['threads']} threads a rank, not with 1"
        )


def run_command(command: list[str], log: Path, timeout_s: float) -> tuple[int, float, int]:
    """Run ``command`` alone; returns its exit code, its seconds and its peak memory in bytes.

    The memory is the system's own account of the largest process among the command and all its
    descendants that were waited for (``ru_maxrss``).
    """
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    started_s = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=environ, start_new_session=True
        )
        # Nobody waits for the process but this thread, so its number cannot go to another.
        timers = [
            threading.Timer(timeout_s, os.kill, [process.pid, signal.SIGTERM]),
            threading.Timer(timeout_s + GRACE_S, os.killpg, [process.pid, signal.SIGKILL]),
        ]
        for timer in timers:
            timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _end(process)
            raise
        finally:
            for timer in timers:
                timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.monotonic() - started_s, usage.ru_maxrss * 1024


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the launcher to end its ranks; kill it where it does not."""
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
