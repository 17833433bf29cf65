"""The card of an exported model: the Hub's YAML front matter, then Markdown, from plain facts.

The fields of the front matter are those of https://huggingface.co/docs/hub/model-cards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lightwork.report.snippet import snippet

EXPORTED = "lightwork.json"
"""Beside the model in an exported folder: how it was trained to be asked."""

METRIC_NAMES = {
    "exact_match": "Exact match",
    "f1": "F1",
    "HasAns_f1": "F1 where there is an answer",
    "NoAns_f1": "F1 where there is none",
}

HUB_METRICS = ("exact_match", "f1")
TASK = "question-answering"
_UNFIT = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class CardFacts:
    """What a card tells. No paths: of files and folders only the names."""

    title: str
    run_id: str
    step: int
    planned_steps: int | None
    base: str
    """What the training began with, in words."""
    base_model: str | None
    """Its name on the Hub; None where it has none."""
    train_files: tuple[str, ...]
    dev_file: str | None
    scores: Mapping[str, float | int]
    """Of the exported step on ``dev_file``; empty where it was not scored."""
    training: Mapping[str, str]
    """More lines of the table: what was set -> to what."""
    asked: Mapping[str, Any]
    """What ``EXPORTED`` holds."""
    versions: str


def card(facts: CardFacts) -> str:
    """The text of ``README.md``."""
    parts = (
        f"---\n{_front_matter(facts)}---",
        f"# {_plain(facts.title)}",
        _what(facts),
        "## How it was trained",
        _training(facts),
        "## Scores",
        _scores(facts),
        "## How to use it",
        _use(facts),
        '## "No answer"',
        _no_answer(facts),
        "## Limits",
        _limits(facts),
    )
    return "\n\n".join(parts) + "\n"


def _front_matter(facts: CardFacts) -> str:
    values: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": TASK,
        "tags": [TASK, "extractive-qa", "lightwork"],
    }
    if facts.base_model is not None:
        values["base_model"] = facts.base_model
    known = [name for name in HUB_METRICS if name in facts.scores]
    if known and facts.dev_file is not None:
        values["metrics"] = known
        result = {
            "task": {"type": TASK, "name": "Extractive question answering"},
            "dataset": {"type": _UNFIT.sub("-", facts.dev_file), "name": facts.dev_file},
            "metrics": [
                {
                    "type": name,
                    "value": round(float(facts.scores[name]), 2),
                    "name": METRIC_NAMES[name],
                }
                for name in known
            ],
        }
        values["model-index"] = [{"name": facts.title, "results": [result]}]
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _what(facts: CardFacts) -> str:
    missing = (
        "or says that the text holds no answer"
        if facts.asked["impossible"]
        else "and always finds one: it never learned that an answer can be missing"
    )
    return (
        "A model for extractive question answering: given a question and a text, it points at the "
        f"piece of the text that answers the question, {missing}."
    )


def _training(facts: CardFacts) -> str:
    steps = f"{facts.step:,}"
    if facts.planned_steps is not None:
        steps = f"the best of {facts.planned_steps:,} was step {facts.step:,}"
        if facts.step == facts.planned_steps:
            steps = f"{facts.step:,}, all that were planned"
    rows = {
        "started from": facts.base,
        "training data": ", ".join(facts.train_files) or "unknown",
        "steps (updates)": steps,
        **facts.training,
        "run": facts.run_id,
        "made with": facts.versions,
    }
    lines = [f"| {_cell(what)} | {_cell(value)} |" for what, value in rows.items()]
    return "\n".join(["| what | value |", "| --- | --- |", *lines])


def _scores(facts: CardFacts) -> str:
    if not facts.scores:
        return "This step was not scored on held-out questions."
    total = facts.scores.get("total")
    counted = f", over all {total:,} questions" if isinstance(total, int) else ""
    names = [name for name in METRIC_NAMES if name in facts.scores]
    lines = [f"| {METRIC_NAMES[name]} | {facts.scores[name]:.2f} |" for name in names]
    intro = (
        f"On {_plain(facts.dev_file or 'held-out questions')}, in percent{counted}, by the "
        "official definition for their language (SQuAD's for English, CMRC 2018's for Chinese). "
        "The step was chosen by these scores, so they flatter it a "
        "little; questions that were used for nothing else tell more."
    )
    return "\n".join([intro, "", "| score | value |", "| --- | --- |", *lines])


def _use(facts: CardFacts) -> str:
    return (
        "With transformers, in this folder (or with its name on the Hub for `folder`):\n\n"
        f"```python\n{snippet(facts.asked)}```\n\n"
        "With lightwork, where `DIR` is this folder:\n\n"
        '```\nlightwork answer DIR --context notes.txt "Who planted the tree?"\n```\n\n'
        f"`{EXPORTED}` tells it how long the windows are and when there is no answer."
    )


def _no_answer(facts: CardFacts) -> str:
    if not facts.asked["impossible"]:
        return (
            "Every training question had an answer, so this model knows no other outcome. Asked "
            "about a text that holds no answer, it gives a wrong one."
        )
    return (
        "Some training questions had no answer in their text, and the model learned to point at "
        "the classification token for them. The score of a piece of text is the start logit of "
        'its first token plus the end logit of its last; that of "no answer" is the sum of both '
        "logits at the classification token, in the window where it is lowest. The model says "
        '"no answer" where that score exceeds the best piece\'s by more than the threshold '
        f"**{facts.asked['no_answer_threshold']:g}**. A higher threshold gives more answers, a "
        f"lower one fewer. It is `no_answer_threshold` in `{EXPORTED}`."
    )


def _limits(facts: CardFacts) -> str:
    asked = facts.asked
    limits = [
        "Answers are pieces of the given text, copied; nothing is said in other words, counted, "
        "or put together from several places.",
        f"A text is read in windows of {asked['max_length']} tokens that share {asked['stride']}; "
        "what is needed to understand an answer must stand in one window.",
        f"A question longer than {asked['max_question_length']} tokens is cut by lightwork; an "
        f"answer has at most {asked['max_answer_tokens']} tokens.",
        "It was scored on questions like those it learned from; other subjects, styles or "
        "languages will score lower. An answer that sounds right can be wrong.",
    ]
    return "\n".join(f"- {text}" for text in limits)


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


_cell = _plain
