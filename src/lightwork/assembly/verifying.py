"""``lightwork verify`` on one rank: from settings to a table of what was measured."""

from __future__ import annotations

import gc
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from lightwork.assembly.ready import Start, cutting_of, make_loader, make_ready
from lightwork.assembly.training import say_idle, started
from lightwork.comm.group import Group
from lightwork.data.loader import Loader
from lightwork.errors import VerifyError
from lightwork.settings import Settings, default_of
from lightwork.telemetry.progress import counting
from lightwork.train.determinism import refuse_tf32
from lightwork.verify.checking import ROWS, check_all
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.table import show
from lightwork.verify.verdict import Verdict

log = logging.getLogger("lightwork")

MOST_WINDOWS = {"cpu": 16, "cuda": 64}
"""Of a batch on which steps are checked, so that it takes about a minute."""
FEWEST_PER_SHARE = 2
MOST_EVALUATION_TOKENS = {"cpu": 2048, "cuda": 8192}


def run_verify(settings: Settings, folder: Path) -> None:
    """Check everything; called on every rank. ``folder`` is for logs and is removed.

    Raises VerifyError on all ranks together where a row failed.
    """
    with started(settings, folder) as start:
        if start.world.launcher != "lightwork":  # which may kill its ranks, and removes nothing
            shutil.rmtree(folder, ignore_errors=True)
        say_idle(start)
        refuse_tf32()  # or its rounding would hide what is looked for
        verdicts = verify(start)
        if start.group.rank == 0:
            show(Console(), _title(start), verdicts)
            shutil.rmtree(folder, ignore_errors=True)
        failed = [verdict.row for verdict in verdicts if verdict.passed is False]
        if failed:
            raise VerifyError(
                f"{len(failed)} of {len(verdicts)} rows failed: {', '.join(failed)}. Do not train "
                "on these ranks before they pass; docs/verify.md says what each row means"
            )


def verify(start: Start) -> list[Verdict]:
    """The verdicts of all rows, the same on every rank."""
    log.info("verify: %s; this takes about a minute", _title(start))
    verdicts = []
    with _quiet(), counting("verify", shown=start.group.rank == 0) as progress:
        for verdict in check_all(_subject(start)):
            verdicts.append(verdict)
            progress(len(verdicts), len(ROWS))
    return verdicts


@contextmanager
def _quiet() -> Iterator[None]:
    """Models are built several times; what is said about each once is not said again and again."""
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def _title(start: Start) -> str:
    size, device = start.group.size, start.world.device.partition(":")[0]
    return (
        f"{size} {'rank' if size == 1 else 'ranks'} on {device} in {start.precision}, "
        f"sync.strategy {start.settings.sync.strategy}, {start.shares} "
        f"{'share' if start.shares == 1 else 'shares'}, {len(start.prepared.train):,} windows"
    )


def _subject(start: Start) -> Subject:
    settings, device = start.settings, start.world.device.partition(":")[0]
    small = replace(start, settings=_smaller(start, device))
    tokens = settings.evaluate.batch_tokens

    def bare_loader(group: Group) -> Loader:
        own = replace(start, group=group)
        return make_loader(own, cutting_of(own), lambda _windows, _padded: None)

    return Subject(
        group=start.group,
        train=start.prepared.train,
        dev=start.prepared.dev,
        device=device,
        strategy=settings.sync.strategy,
        precision=start.precision,
        batch_size=settings.train.batch_size,
        max_tokens=settings.data.max_length,
        evaluation_tokens=min(tokens, MOST_EVALUATION_TOKENS[device]),
        cutting=cutting_of(small),
        bare_loader=bare_loader,
        build=lambda group, clips: _trainee(replace(small, group=group), clips),
    )


def _smaller(start: Start, device: str) -> Settings:
    """The settings with a batch small enough, whose shares are cut in as many micro-batches as
    before. The rate is the highest one, so that few steps show."""
    settings, train = start.settings, start.settings.train
    most = max(MOST_WINDOWS[device], FEWEST_PER_SHARE * start.shares)
    size, asked = train.batch_size, train.micro_batch_tokens
    tokens = default_of("train.micro_batch_tokens") if asked == "auto" else asked
    if size > most:
        windows = len(start.prepared.train)
        size = next((n for n in (most, most - 1) if windows % n), most)  # a short last batch
        tokens = max(1, tokens * size // train.batch_size)
    values: dict[str, Any] = {"batch_size": size, "micro_batch_tokens": tokens}
    values |= {"lr_rule": "none", "reference_batch_size": None}
    return settings.model_copy(update={"train": train.model_copy(update=values)})


def _trainee(start: Start, clips: bool) -> Trainee:
    """What a run would begin with on the ranks of ``start``."""
    gc.collect()  # hooks and parameters of the one before hold each other
    if not clips:
        train = start.settings.train.model_copy(update={"max_grad_norm": None})
        start = replace(start, settings=start.settings.model_copy(update={"train": train}))
    ready = make_ready(start)
    return Trainee(
        ready.model, ready.stepper, ready.loader, ready.update.parts, ready.schedule.peak
    )
