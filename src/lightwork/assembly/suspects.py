"""From a step that stands out to the ids of its examples, long after the ranks are gone.

Which windows a step learned from follows from the plan, and the plan from the lengths of all
windows and how batches are cut: both are looked up where the run left them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lightwork.assembly.resuming import windows_digest
from lightwork.data.loader import Cutting
from lightwork.data.plan import EpochPlan, assign, cut
from lightwork.data.store import Columns, Store
from lightwork.errors import LightworkError
from lightwork.report.finding import Finding
from lightwork.report.timeline import checkpoint_folders
from lightwork.settings import load_settings
from lightwork.settings.run_folder import SETTINGS
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.train.checkpoint import read_state

MANY = 64
"""Windows of a step that are looked up; of more nobody would read the names."""
_TASK = ExtractiveTask(
    pad_id=0, pad_left=False, uses_type_ids=False, answering=Answering(1, 1, no_answer=False)
)
"""Asked for ids only, for which it needs no tokenizer."""


@dataclass(frozen=True)
class Plan:
    """What the windows of every step follow from."""

    store: Columns
    cutting: Cutting
    ranks: int

    def windows(self, step: int, rank: int | None) -> list[int]:
        """Those of ``step``, or of the part that ``rank`` had in it."""
        lengths, cutting = self.store.column("tokens"), self.cutting
        batches = -(-len(lengths) // cutting.batch_size)
        epoch, batch = divmod(step - 1, batches)
        windows = EpochPlan(cutting.seed, epoch, lengths, cutting.batch_size).batch(batch)
        if rank is None:
            return [int(window) for window in windows]
        given = (cutting.shares, cutting.micro_batch_tokens, cutting.round_to)
        parts = cut(windows, lengths[windows], *given)
        hosted = assign(cutting.shares, self.ranks)[rank]
        return [int(w) for share in hosted for micro in parts[share] for w in micro.windows]


def named(found: list[Finding], run: Path, ranks: int) -> list[Finding]:
    """``found`` with the ids of the examples behind those that single steps show.

    ``ranks``: of the newest start. Where they cannot be found, the advice says how they can be.
    """
    if not any(finding.at_steps for finding in found):
        return found
    plan = plan_of(run, ranks)
    return [finding if not finding.at_steps else with_ids(finding, plan) for finding in found]


def with_ids(finding: Finding, plan: Plan | None) -> Finding:
    """``finding`` with its windows and the ids of their examples, as far as ``plan`` gives them."""
    if not finding.at_steps:
        return finding
    if plan is None:
        return replace(
            finding,
            todo=f"{finding.todo}. Their ids can be told once the run has a checkpoint, and while "
            "the store of its windows is in data.cache: the command that starts the run again "
            "makes it anew",
        )
    step = finding.at_steps[0]
    windows = list(finding.windows) or plan.windows(step, finding.rank)
    ids = _TASK.example_ids(plan.store, windows[:MANY])
    return replace(finding, windows=tuple(windows), examples=tuple(ids))


def plan_of(run: Path, ranks: int) -> Plan | None:
    """That of the run in a folder; None where it has no checkpoint, or the store is gone.

    A store's name tells nobody of which run it is, but the newest checkpoint says from which
    windows it learned; no tokenizer and no model is needed.
    """
    state = _newest_state(run)
    if state is None:
        return None
    with suppress(LightworkError, OSError):
        settings = load_settings(run / SETTINGS)
        for path in sorted((settings.data.cache / "stores").glob("*.safetensors")):
            with suppress(LightworkError):
                store = Store(path)
                if windows_digest(store) == state["windows"]:
                    return Plan(store, Cutting(**state["cutting"]), ranks)
    return None


def _newest_state(run: Path) -> dict[str, Any] | None:
    for _, folder in reversed(checkpoint_folders(run)):
        with suppress(LightworkError, OSError, ValueError):
            state = read_state(folder)
            if "cutting" in state and "windows" in state:
                return state
    return None
