"""``lightwork evaluate`` on one rank: the best checkpoint of a run against any file."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from lightwork.assembly.building import (
    build_replica,
    build_task,
    place_of_this_rank,
    shown_path,
)
from lightwork.assembly.learned import best_of
from lightwork.assembly.preparing import prepare_store
from lightwork.comm.group import Group
from lightwork.comm.world import open_group
from lightwork.data.store import Store
from lightwork.errors import RunError
from lightwork.settings import Settings
from lightwork.tasks.contract import Task
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.train.evaluate import Evaluation, evaluate
from lightwork.train.model import Model

log = logging.getLogger("lightwork")

SHOWN = 3
"""Answers that are printed."""


def run_evaluate(run: Path, data: Sequence[Path], out: Path, settings: Settings) -> None:
    """Score the best checkpoint of ``run``, else the newest, on ``data``; write three files."""
    with place_of_this_rank(settings, log_dir=None) as world:
        learned = best_of(run)
        tokenizer = load_tokenizer(str(learned.model))
        store = prepare_store(settings, tokenizer, data, training=False)
        with open_group(world, settings.sync.timeout_s) as group:
            module = build_replica(
                group, settings, str(learned.model), len(tokenizer), world.device
            )
            task = build_task(settings, tokenizer, learned.impossible, learned.no_answer_threshold)
            model = Model(
                module=module,
                trained=module,
                task=task,
                device=torch.device(world.device),
                example_ids=lambda windows: task.example_ids(store, windows),
            )
            result = evaluate(group, model, store, settings.evaluate.batch_tokens)
            _write(group, task, result, out)
            _say(store, result)
            if group.rank == 0:
                log.info("%s", task.scored_as(store))
            if learned.impossible:
                log.info(
                    'said "no answer" where its score exceeds that of the best text by more than '
                    "%g, as tuned on the held-out questions of the run",
                    learned.no_answer_threshold,
                )
            if result.remark:
                log.info("%s", result.remark)
            names = ", ".join(shown_path(path) for path in data)
            if group.rank == 0:  # standard output, so that it can be kept
                sys.stdout.write(f"{result}  on {names}\n")
                sys.stdout.flush()
            log.info("answered by %s, written to %s", learned.checkpoint.name, shown_path(out))


def _write(group: Group, task: Task, result: Evaluation, out: Path) -> None:
    """The files, from rank 0; a failure there is everybody's."""
    problem = None
    if group.rank == 0:
        assert result.predictions is not None
        try:
            out.mkdir(parents=True, exist_ok=True)
            for name, content in {
                **task.files(result.predictions),
                "scores.json": result.scores,
            }.items():
                text = json.dumps(content, indent=2, ensure_ascii=False)
                (out / name).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            problem = f"cannot write to {out} ({error.strerror or error})"
    problem = group.gather_json(problem)[0]
    if problem is not None:
        raise RunError(problem)


def _say(store: Store, result: Evaluation) -> None:
    """A few answers, so that a person sees what the scores mean; rank 0 has them."""
    answers = list((result.predictions or {}).values())
    for number in range(0, len(answers), max(1, -(-len(answers) // SHOWN)))[:SHOWN]:
        question = store.text("example_question", number)
        log.info("  %s  ->  %s", question, answers[number][0]["text"] or "(no answer)")
