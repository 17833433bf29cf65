"""``lightwork export``: the best model of a run as a Hugging Face folder that explains itself."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightwork import __version__
from lightwork.assembly.building import shown_path
from lightwork.assembly.learned import Learned, best_of
from lightwork.disk import replacing
from lightwork.errors import CheckpointError, RunError
from lightwork.report.card import EXPORTED, CardFacts, card
from lightwork.report.runs import RunFacts, read_facts
from lightwork.settings import Settings
from lightwork.tasks.extractive.pretrained import SCRATCH
from lightwork.telemetry.lines import Scores, read_evaluations
from lightwork.train.checkpoint import read_state

FORMAT = 1
CARD = "README.md"

_PLACES = ("_name_or_path", "name_or_path")
"""Where some versions of transformers note in a configuration which folder it came from."""


@dataclass(frozen=True)
class Exported:
    """What was written, and which step of the run it is."""

    folder: Path
    step: int


def run_export(run: Path, out: Path, settings: Settings) -> Exported:
    """Write the best model of ``run`` to ``out``, which appears whole or not at all.

    An earlier export in ``out`` gives way; whether it may is for the caller to ask. Raises
    RunError when ``out`` cannot be written, and what ``learned.best_of`` raises.
    """
    learned = best_of(run)
    state, facts = _state(learned.checkpoint), read_facts(run)
    asked = _asked(learned, state["step"], facts.run_id, settings)
    scores = read_evaluations(run).get(state["step"], {})
    texts = {
        EXPORTED: json.dumps(asked, indent=2) + "\n",
        CARD: card(_card_facts(out.name, facts, state, asked, scores, settings)),
    }
    try:
        with replacing(out) as folder:
            _copy_model(learned.model, folder)
            for name, text in texts.items():
                (folder / name).write_bytes(text.encode())
    except OSError as error:
        raise RunError(
            f"cannot write {shown_path(out)} ({error.strerror or error}); nothing of it was kept. "
            "Make room or name another folder"
        ) from error
    return Exported(out, state["step"])


def _state(checkpoint: Path) -> dict[str, Any]:
    """The state of a checkpoint, with all that is asked of it here."""
    state = read_state(checkpoint)
    lacking = [name for name in ("step", "impossible", "lightwork", "torch") if name not in state]
    if lacking:
        raise CheckpointError(
            f"{shown_path(checkpoint / 'state.json')} does not say {', '.join(lacking)}, so this "
            "checkpoint cannot be exported; another version of lightwork wrote it"
        )
    return state


def _asked(learned: Learned, step: int, run_id: str, settings: Settings) -> dict[str, Any]:
    """What ``lightwork.json`` holds: how the model was trained to be asked."""
    return {
        "format": FORMAT,
        "run_id": run_id,
        "step": step,
        "impossible": learned.impossible,
        "no_answer_threshold": learned.no_answer_threshold,
        "max_length": settings.data.max_length,
        "stride": settings.data.stride,
        "max_question_length": settings.data.max_question_length,
        "max_answer_tokens": settings.evaluate.max_answer_tokens,
        "n_best": settings.evaluate.n_best,
        "lightwork": __version__,
    }


def _card_facts(
    title: str,
    facts: RunFacts,
    state: dict[str, Any],
    asked: dict[str, Any],
    scores: Scores,
    settings: Settings,
) -> CardFacts:
    base, base_model = _base(settings)
    dev = settings.data.dev
    return CardFacts(
        title=title,
        run_id=facts.run_id,
        step=state["step"],
        planned_steps=facts.planned_steps,
        base=base,
        base_model=base_model,
        train_files=tuple(path.name for path in settings.data.train),
        dev_file=None if dev is None else ", ".join(path.name for path in dev),
        scores=scores,
        training=_training(settings, facts.identity.get("train.precision", "fp32")),
        asked=asked,
        versions=f"lightwork {state['lightwork']}, torch {state['torch']}",
    )


def _training(settings: Settings, precision: str) -> dict[str, str]:
    data, model, train = settings.data, settings.model, settings.train
    rows = {
        "epochs": str(train.epochs),
        "batch": f"{train.batch_size} windows behind every step, over all ranks",
        "windows": f"{data.max_length} tokens that share {data.stride}, questions cut at "
        f"{data.max_question_length}",
        "optimizer": f"AdamW, weight decay {train.weight_decay:g}, betas {train.adam_beta1:g} and "
        f"{train.adam_beta2:g}",
        "learning rate": f"{train.learning_rate:g} at most, {train.schedule}, "
        f"{train.warmup_ratio:.0%} warm-up",
        "precision": precision,
        "dropout": "as in the model's config" if model.dropout is None else f"{model.dropout:g}",
        "seed": str(train.seed),
    }
    if train.reference_batch_size is not None:
        rows["learning rate"] += (
            f"; scaled by the {train.lr_rule} rule from a batch of {train.reference_batch_size}"
        )
    if data.limit is not None:
        rows["training questions"] = f"the first {data.limit:,}"
    if model.freeze != "none":
        rows["frozen"] = f"the {model.freeze}"
    return rows


def _base(settings: Settings) -> tuple[str, str | None]:
    """What the training began with in words, and its name on the Hub if it has one.

    Paths are absolute by now, so what is none of the others is a name.
    """
    model = settings.model
    source = model.source
    if source == SCRATCH:
        layers = f"{model.scratch_layers} layer{'s' if model.scratch_layers > 1 else ''}"
        return f"random weights (BERT with {layers} of width {model.scratch_width})", None
    if source.startswith("package:"):
        return f"{source.removeprefix('package:')}, from an installed package", None
    if Path(source).is_absolute():
        return f"a model in a folder called {Path(source).name}", None
    return source, source


def _copy_model(source: Path, folder: Path) -> None:
    """The files as they were verified, but for a note of the machine's folders in them."""
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if path.name.endswith("config.json"):
            _without_places(target)


def _without_places(path: Path) -> None:
    try:
        values = json.loads(path.read_bytes())
        places = [name for name in _PLACES if Path(values.get(name) or "").is_absolute()]
    except (ValueError, AttributeError, TypeError):
        return
    if places:
        kept = {name: value for name, value in values.items() if name not in places}
        path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
