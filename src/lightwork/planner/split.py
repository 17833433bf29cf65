"""Held-out questions for data that brings none: whole articles or, failing that, whole contexts.

A question whose context was trained on tells nothing about unseen text, so no context is on both
sides, not even one that stands in two articles.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightwork.errors import DataError
from lightwork.planner.passages import Passage, read_passages, to_squad

SHARE = 0.1
MOST_QUESTIONS = 2000
FEWEST_QUESTIONS = 20
"""Held out of small sets even where that is more than ``SHARE``, but never above a quarter."""


@dataclass(frozen=True)
class Split:
    """Two documents of the SQuAD shape, and what is in them."""

    train: bytes
    dev: bytes
    by: str
    """What was kept whole: ``article`` or ``context``."""
    train_questions: int
    dev_questions: int
    train_groups: int
    dev_groups: int


def split_questions(files: Sequence[Path]) -> Split:
    """Hold out about a tenth of the questions in ``files``, the same ones at every call.

    The files must have passed ``read_examples``. Raises DataError when all questions are about one
    context.
    """
    passages = read_passages(files)
    total = sum(len(passage.questions) for passage in passages)
    target = _target(total)
    by, groups = "article", _by_article(passages)
    held = _choose(groups, target)
    if not target / 2 <= _count(held) <= 2 * target:
        by, groups = "context", _by_context(passages)
        held = _choose(groups, target)
    if not held:
        names = ", ".join(file.name for file in files)
        raise DataError(
            f"{names}: all {total:,} questions are about one context, so none can be held out to "
            "see what is learned; name a file of other questions with --dev FILE"
        )
    chosen = {id(passage) for group in held for passage in group}
    train = [passage for passage in passages if id(passage) not in chosen]
    dev = [passage for passage in passages if id(passage) in chosen]
    return Split(
        train=to_squad(train),
        dev=to_squad(dev),
        by=by,
        train_questions=total - _count(held),
        dev_questions=_count(held),
        train_groups=len(groups) - len(held),
        dev_groups=len(held),
    )


Group = list[Passage]


def _target(total: int) -> int:
    fewest = min(FEWEST_QUESTIONS, total // 4)
    return min(MOST_QUESTIONS, max(round(SHARE * total), fewest, 1))


def _count(groups: Sequence[Group]) -> int:
    return sum(len(passage.questions) for group in groups for passage in group)


def _choose(groups: Sequence[Group], target: int) -> list[Group]:
    """Groups with about ``target`` questions, drawn by a hash of their texts.

    At least one with questions is chosen and at least one is left; empty where that cannot be.
    """
    asked = sorted((group for group in groups if _count([group])), key=_draw)
    if len(asked) < 2:
        return []
    chosen: list[Group] = []
    others: list[Group] = []
    left = target
    for group in asked:
        fits = _count([group]) <= left
        (chosen if fits else others).append(group)
        left -= _count([group]) if fits else 0
    # The target is less than the total, so there are others.
    smallest = min(others, key=lambda group: _count([group]))
    if not chosen or (len(others) > 1 and target / 2 < left and _count([smallest]) <= 2 * left):
        chosen.append(smallest)
    return chosen


def _draw(group: Group) -> str:
    """A number as if by chance, which depends on what is in the group alone."""
    text = f"{group[0].document} {group[0].context}"
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _by_context(passages: Sequence[Passage]) -> list[Group]:
    groups: dict[str, Group] = defaultdict(list)
    for passage in passages:
        groups[passage.context].append(passage)
    return list(groups.values())


def _by_article(passages: Sequence[Passage]) -> list[Group]:
    """Passages of one document are a group, and documents that share a context are one group.

    Empty where no passage says which document it is from.
    """
    if all(passage.document == f"context {passage.context}" for passage in passages):
        return []
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    for passage in passages:
        name = root(passage.document)
        if passage.context.strip():
            parent[name] = root(f"context {passage.context}")
    groups: dict[str, Group] = defaultdict(list)
    for passage in passages:
        groups[root(passage.document)].append(passage)
    return list(groups.values())
