"""Faults of a known size on real runs, and what ``explain`` says of each: short forms of the runs
of ``benchmarks/verdict.py``, which has the long ones.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import planting
from benchmarks.faults import DIRTY_STEP, NOTHING, Answer, Planted, faults, write_settings
from lightwork.assembly.preparing import prepare
from lightwork.assembly.suspects import named
from lightwork.cli.main import app
from lightwork.data.loader import Cutting, Loader
from lightwork.report.explaining import explained
from lightwork.report.finding import Finding, typical
from lightwork.settings import load_settings
from tests.ranks import run_as_processes

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SHORTER = ("model.scratch_layers=2", "model.scratch_width=96", "train.batch_size=24",
           "train.learning_rate=3e-3")  # fmt: skip
STEPS, DIRTY_STEPS = 40, DIRTY_STEP + 4
"""Of a run, and of one whose model has to learn something first or whose seconds make a line."""
FAULTS = {row.name: row for row in (NOTHING, *faults()) if not row.hog}
LEFT_OUT = ("a rank 1.3 times as slow", "a rank 2.0 times as slow")
"""The same rule at other sizes, for which short runs on any machine are too rough."""
FACTOR_WITHIN = 0.25
OTHER = 0.10
"""Looser than what the long runs hold, on machines where nothing else runs."""


class Trials:
    """One folder for all runs, so that data is prepared once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = write_settings(folder, STEPS)
        self.cores = sorted(os.sched_getaffinity(0))
        self._asked: dict[Path, Answer] = {}

    def run(self, planted: Planted, ranks: int = 2, again: bool = False) -> Path:
        """The folder of a run with this fault."""
        return self.folder / f"{planted.name.replace(' ', '-')}-{ranks}{'-again' if again else ''}"

    def ask(self, planted: Planted, ranks: int = 2, again: bool = False) -> Answer:
        """Train with the fault, unless that was done, and explain the run."""
        run = self.run(planted, ranks, again)
        if run not in self._asked:
            self._asked[run] = self._ask(planted, ranks, run)
        return self._asked[run]

    def _ask(self, planted: Planted, ranks: int, run: Path) -> Answer:
        told = json.dumps({**planted.told(self.cores), "look_every_s": 0.2})
        count = DIRTY_STEPS if planted.kind in ("spike", "micro_batches") else STEPS
        own = (f"train.shares={ranks}", f"train.max_steps={count}")
        given = dict(pair.split("=") for pair in (*SHORTER, *own, *planted.overrides))
        overrides = [f"{key}={value}" for key, value in given.items()]
        arguments = (str(self.settings), str(run), told, *overrides)
        run_as_processes(ranks, f"{planting.__file__}:train", *arguments, timeout_s=300, join=False)
        steps, found = explained(run)
        return Answer(planted, steps, named(found, run, ranks))


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    return Trials(tmp_path_factory.mktemp("verdict"))


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in LEFT_OUT])
def test_what_was_planted_is_found(trials: Trials, name: str) -> None:
    """On a machine that computes something else too, one run may be blurred, but not two."""
    planted, again = FAULTS[name], False
    answer = trials.ask(planted)
    if wrong(answer):
        again, answer = True, trials.ask(planted, again=True)
    assert wrong(answer) is None, answer.told()
    log = (trials.run(planted, again=again) / "logs/rank0.log").read_text()
    assert answer.found[0].words in log, "it stands at the end of the training, too"


def test_a_slow_rank_is_named_while_it_trains(trials: Trials) -> None:
    planted = FAULTS["a rank 1.5 times as slow"]
    for again in (False, True):
        trials.ask(planted, again=again)
        logs = [trials.run(planted, again=again) / f"logs/rank{rank}.log" for rank in (0, 1)]
        first, other = (log.read_text() for log in logs)
        assert "straggler" not in other, "rank 0 speaks for all"
        if re.search(r"step \d+: straggler: rank 1 takes .* times as long", first):
            return
    raise AssertionError(first)


def wrong(answer: Answer) -> str | None:
    """What is missing; other programs on the machine may be found beside what was planted."""
    planted, kinds = answer.planted, [finding.kind for finding in answer.found]
    if planted.kind not in kinds:
        return f"{kinds}, not {planted.kind}"
    first = answer.found[kinds.index(planted.kind)]
    if planted.rank is not None and first.rank != planted.rank:
        return f"rank {first.rank}, not {planted.rank}"
    factor = planted.given.get("factor")
    if factor and first.factor != pytest.approx(factor, rel=FACTOR_WITHIN):
        return f"{first.factor} times, not {factor}"
    return None


def test_the_examples_of_a_dirty_batch_are_named(trials: Trials) -> None:
    """By another way: what a loader gives at that step."""
    planted = FAULTS["garbage in a batch"]
    run, answer = trials.run(planted), trials.ask(planted)
    (finding,) = [finding for finding in answer.found if finding.kind == "spike"]
    assert finding.at_steps == (DIRTY_STEP,)
    settings = load_settings(trials.settings, list(SHORTER))
    store = prepare(settings).train
    train = settings.train
    assert isinstance(train.seed, int)
    cutting = Cutting(train.seed, train.batch_size, 2, 8192, 1)
    columns = (store.column("tokens"), store.column("weight"))
    loader = Loader(*columns, cutting, range(2), lambda _windows, _padded: None)
    (work,) = loader.work(DIRTY_STEP, DIRTY_STEP)
    examples = {store.text("example_id", store.column("example")[w]) for w in work.windows}
    assert set(finding.examples) == examples
    said = (run / "logs/rank0.log").read_text()
    assert f"(with the examples {', '.join(finding.examples[:8])}, …" in said
    told = CliRunner().invoke(app, ["explain", str(run), "--json"])
    (spike,) = [one for one in json.loads(told.stdout)["findings"] if one["kind"] == "spike"]
    assert set(spike["examples"]) == examples
    _without_a_store(run, finding)


def _without_a_store(run: Path, finding: Finding) -> None:
    """Nothing is made anew, and it is told how to come by the names."""
    bare = replace(finding, examples=(), windows=())
    stores = run.parent / "cache/stores"
    stores.rename(run.parent / "elsewhere")
    try:
        (unnamed,) = named([bare], run, 2)
    finally:
        (run.parent / "elsewhere").rename(stores)
    assert unnamed.examples == ()
    assert "their ids can be told" in unnamed.todo.lower()
    assert not list(run.parent.glob("elsewhere*"))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_nearly_all_of_a_step_is_in_some_part(trials: Trials, ranks: int) -> None:
    steps = trials.ask(NOTHING, ranks).steps
    parts: Any = typical(steps["other_s"]) / typical(steps["step_s"])
    assert parts.max() <= OTHER, parts
