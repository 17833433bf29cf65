"""Whether all ranks together answer and score as one rank does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from lightwork.comm.group import Group
from lightwork.data.store import Store
from lightwork.train.evaluate import Evaluation, evaluate
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.verdict import RowFailedError, Verdict, counted, gathered, listed, one_rank

EVALUATION = "evaluation"
BATCHES_PER_RANK = 2


class _Watched:
    """A task that notes which windows it is asked for, and leaves all else to another."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self.windows: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def collate(self, rows: Any, windows: Any, padded_tokens: int) -> Any:
        self.windows += [int(window) for window in windows]
        return self._task.collate(rows, windows, padded_tokens)


def evaluation(subject: Subject, trainee: Trainee) -> Verdict:
    """The largest batches of the held-out windows: each window once over all ranks, and the same
    answers and scores as where rank 0 computes all of them."""
    if subject.dev is None:
        return Verdict(EVALUATION, None, "not checked: there is no data.dev")
    group, dev = subject.group, subject.dev
    if group.size == 1:
        return one_rank(EVALUATION)
    watched = _Watched(trainee.model.task)
    together = _evaluated(group, subject, trainee, watched, BATCHES_PER_RANK)
    seen = [window for rank in gathered(group, lambda: watched.windows) for window in rank]
    own, alone = _Watched(trainee.model.task), None

    def on_one_rank() -> list[int]:
        nonlocal alone
        if group.rank == 0:
            batches = BATCHES_PER_RANK * group.size
            alone = _evaluated(Group.alone(), subject, trainee, own, batches)
        return own.windows

    expected = gathered(group, on_one_rank)[0]
    _check_windows(seen, expected)
    wrong = gathered(group, lambda: alone and _difference(together, alone))[0]
    if wrong:
        return Verdict(EVALUATION, False, wrong)
    return Verdict(
        EVALUATION,
        True,
        f"{counted(len(seen), 'window')} of {len(dev):,}, each once; answers and scores on "
        f"{group.size} ranks are those of one ({together})",
    )


def _evaluated(
    group: Group, subject: Subject, trainee: Trainee, task: _Watched, batches_per_rank: int
) -> Evaluation:
    dev: Store | None = subject.dev
    assert dev is not None
    # Every rank is to have some, also of a small set.
    share = int(dev.column("tokens").sum()) // (BATCHES_PER_RANK * subject.group.size)
    tokens = min(subject.evaluation_tokens, share)
    model: Any = replace(trainee.model, task=task)
    return evaluate(group, model, dev, tokens, batches_per_rank)


def _check_windows(seen: list[int], expected: list[int]) -> None:
    several = [window for window, times in Counter(seen).items() if times > 1]
    if several:
        raise RowFailedError(f"held-out windows {listed(sorted(several))} were computed twice")
    if set(seen) != set(expected):
        missing, other = sorted(set(expected) - set(seen)), sorted(set(seen) - set(expected))
        raise RowFailedError(
            f"other held-out windows than on one rank: without {listed(missing) or 'none'}, with "
            f"{listed(other) or 'none'}"
        )


def _difference(together: Evaluation, alone: Evaluation) -> str:
    """The first answer or score that is another; nothing where all are the same."""
    assert together.predictions is not None
    assert alone.predictions is not None
    for question, answers in alone.predictions.items():
        text, other = answers[0]["text"], together.predictions[question][0]["text"]
        if text != other:
            return f"question {question} has the answer {other!r}, on one rank {text!r}"
    for name, score in alone.scores.items():
        if together.scores.get(name) != score:
            return f"{name} is {together.scores.get(name)}, on one rank {score}"
    return ""
