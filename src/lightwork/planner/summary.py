"""What ``lightwork init`` found and chose, as labelled lines for a person."""

from __future__ import annotations

from collections.abc import Mapping

from lightwork.planner.choices import percent
from lightwork.planner.first_settings import FirstSettings
from lightwork.planner.machine import Machine
from lightwork.planner.models import ModelChoice
from lightwork.planner.proposal import measured_by
from lightwork.planner.windowing import fit_text
from lightwork.planner.wish import Wish
from lightwork.tasks.extractive.examples import NOTES, Examples, noted, shortlist
from lightwork.tasks.extractive.pretrained import SCRATCH

SHOWN_SHARE = 0.02
MANY_UNKNOWN = 0.03
FEW_WINDOWS = 1000
_SAID = ("examples", "contexts", "answers", "impossible")
"""Counts that are told in other words."""

Line = tuple[str, str]
"""A label, empty where a line belongs to the one before, and a text."""


def found(first: FirstSettings, wish: Wish) -> list[Line]:
    """What is in the data."""
    names = " and ".join(path.name for path in wish.train)
    lines = [("data", f"{names}: {_counts(first.examples)}")]
    lines += [("", text) for text in _noticed(first.examples)]
    if first.dev is not None and wish.dev is not None:
        lines.append(("held out", f"{wish.dev.name}: {_counts(first.dev)}"))
        lines += [("", text) for text in _noticed(first.dev)]
        both = {item.context for item in first.examples} & {item.context for item in first.dev}
        if both:
            lines.append(
                ("", f"{len(both):,} of its contexts are trained on too: its scores flatter")
            )
    lines.append(("language", _languages(first.languages)))
    survey = first.survey
    size = (
        f"question and context: half have at most {survey.whole.median:,}, 90 % at most "
        f"{survey.whole.p90:,}, the longest has {survey.whole.longest:,}"
    )
    sampled = len(survey.sample) < len(first.examples)
    basis = f"; {len(survey.sample):,} questions measured" if sampled else ""
    lines.append(("tokens", f"{size}{measured_by(survey, first.model)}{basis}"))
    if survey.answers is not None:
        spread = survey.answers
        lines.append(
            ("", f"answers: half have at most {spread.median:,}, 99 % at most {spread.p99:,}")
        )
    if survey.unknown >= MANY_UNKNOWN:
        lines.append(
            (
                "",
                f"{percent(survey.unknown)} of the tokens are unknown to this model: it was made "
                "for other languages; leave out --model and a fitting one is proposed",
            )
        )
    return lines


def chosen(first: FirstSettings, machine: Machine, offline: bool) -> list[Line]:
    """What was decided."""
    proposal, lines = first.proposal, []
    split = first.split
    if split is not None:
        text = (
            f"{split.train_questions:,} questions to train on, {split.dev_questions:,} held out; "
            f"split by {split.by}: {split.dev_groups:,} of "
            f"{split.dev_groups + split.train_groups:,} held out whole"
        )
        lines.append(("split", text))
    length = proposal.number("data.max_length")
    windows = f"{length} tokens at most; {fit_text(first.survey.fitting(length))}"
    lines.append(("windows", f"{windows}: about {proposal.windows:,} windows to train on"))
    if proposal.counted.cut_answers:
        share = percent(proposal.counted.cut_answers)
        lines.append(("", f"{share} of the questions have an answer too long for any window"))
    lines.append(("model", _model(first.model, offline)))
    lines.append(
        (
            "training",
            f"{proposal.updates:,} updates of {proposal.number('train.batch_size')} windows in "
            f"{proposal.number('train.epochs')} epochs, on {_ranks(proposal.ranks)} "
            f"({proposal.ranks_why})",
        )
    )
    if not machine.gpus and first.model.kind != SCRATCH and proposal.windows > FEW_WINDOWS:
        lines.append(
            (
                "",
                "without a GPU this takes long: for a first look add data.limit=500 to the command",
            )
        )
    return lines


def _ranks(ranks: int) -> str:
    return "1 process" if ranks == 1 else f"{ranks} processes"


def _counts(examples: Examples) -> str:
    summary = examples.summary
    text = f"{summary['examples']:,} questions about {summary['contexts']:,} contexts"
    impossible = summary["impossible"]
    return text + (f", {impossible:,} of them without an answer" if impossible else "")


def _noticed(examples: Examples) -> list[str]:
    """What is odd in the data, with the first ids."""
    lines = []
    for kind, text in NOTES.items():
        count, ids = examples.summary.get(kind, 0), examples.listed.get(kind, [])
        if count and kind not in _SAID:
            lines.append(f"{noted(count, text)}: {shortlist(ids, count)}")
    return lines


def _languages(mix: Mapping[str, float]) -> str:
    shown = {name: share for name, share in mix.items() if share >= SHOWN_SHARE}
    if not shown:
        return "no letters that tell it"
    if len(shown) == 1:
        return next(iter(shown))
    return ", ".join(f"{name} {percent(share)}" for name, share in shown.items())


def _model(model: ModelChoice, offline: bool) -> str:
    if model.kind == SCRATCH:
        return "scratch: small, from nothing, no download; it knows no language"
    if model.kind == "local":
        return f"{model.source}, on this machine"
    if model.kind == "cached":
        return f"{model.source}, in the local cache of the hub"
    if offline:
        return (
            f"{model.source}, not on this machine, and HF_HUB_OFFLINE forbids the download: "
            "training would stop with an error"
        )
    size = f" (about {model.known.size})" if model.known else ""
    return (
        f"{model.source}, not on this machine: it will be downloaded at the first start{size}; "
        "without a network training would stop with an error"
    )
