"""When training stops: scores that no longer rise, ranks that no longer hold the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.comm.group import Group
from lightwork.errors import StepError
from lightwork.train.calendar import Calendar
from lightwork.train.checkpoint import Checkpoints, Part
from lightwork.train.control import NO_WISHES, Wishes
from lightwork.train.duties import Duties, State, Sums
from lightwork.train.evaluate import Evaluation
from lightwork.train.scores import Best, Scores
from tests.ranks import run_as_threads


def parts(step: int, sums: Sums, best: Best | None) -> list[Part]:
    return [Part("state", {"step": step, "best": best and [best.step, best.score]})]


def duties(group: Group, run: Path, scores: list[float], patience: int | None) -> Duties:
    """An evaluation after every step gives the next of ``scores``."""
    left = iter(scores)
    calendar = Calendar(
        last_step=100, epoch_steps=1, save_every_s=None, save_every_steps=None, keep=9,
        evaluate_every_steps=1, patience=patience,
    )  # fmt: skip

    def evaluate() -> Evaluation:
        return Evaluation({"f1": next(left)}, {})

    state = State(parts, lambda step: {})
    return Duties(group, calendar, Checkpoints(run), state, evaluate, Scores(run))


def steps_done(group: Group, run: Path, scores: list[float], patience: int | None) -> int:
    """Steps until the duties say stop."""
    with duties(group, run, scores, patience) as mine:
        for step in range(1, len(scores) + 1):
            if not mine.after(step, NO_WISHES):
                return step
    return len(scores)


@pytest.mark.parametrize(
    ("scores", "patience", "steps"),
    [
        ([1.0, 2.0, 2.0, 1.0, 3.0], 2, 4),  # an equal score is no better one
        ([1.0, 2.0, 2.0, 3.0, 1.0, 2.9], 2, 6),
        ([3.0, 2.0, 1.0], 1, 2),
        ([3.0, 2.0, 1.0], None, 3),
    ],
)
def test_patience_counts_evaluations_since_the_best(
    tmp_path: Path, scores: list[float], patience: int | None, steps: int
) -> None:
    assert run_as_threads(2, lambda group: steps_done(group, tmp_path, scores, patience)) == [
        steps,
        steps,
    ]
    best = Checkpoints(tmp_path).best()
    assert best is not None
    assert best.name == f"step-{scores[:steps].index(max(scores[:steps])) + 1:06d}"


def test_a_run_that_stopped_by_itself_stays_stopped(tmp_path: Path) -> None:
    assert steps_done(Group.alone(), tmp_path, [3.0, 2.0, 1.0], 2) == 3
    assert not duties(Group.alone(), tmp_path, [9.0], 2).owed(3)
    assert duties(Group.alone(), tmp_path, [9.0], 3).owed(3), "more patience was given"


def test_an_evaluation_that_a_kill_prevented_may_end_the_run(tmp_path: Path) -> None:
    assert steps_done(Group.alone(), tmp_path, [3.0, 2.0], 9) == 2
    assert not duties(Group.alone(), tmp_path, [1.0], 2).owed(3)
    assert Scores(tmp_path).until(3) == {1: 3.0, 2: 2.0, 3: 1.0}


def test_what_an_earlier_timeline_scored_later_does_not_count(tmp_path: Path) -> None:
    scores = Scores(tmp_path)
    for step, score in [(1, 1.0), (2, 9.0), (3, 2.0)]:
        scores.add(step, {"f1": score})
    assert scores.since_best(1) == 0
    assert scores.since_best(3) == 1
    scores.add(2, {"f1": 0.5})  # step 2 was done again
    assert scores.since_best(2) == 1
    assert scores.since_best(3) == 0


@pytest.mark.parametrize(
    ("save_every", "check_every", "clock", "checked"),
    [
        (None, None, (), [10]),  # the last step is always saved
        (None, 4, (), [4, 8, 10]),
        (3, None, (), [3, 6, 9, 10]),
        (3, 4, (), [3, 4, 6, 8, 9, 10]),
        (None, 5, (7,), [5, 7, 10]),
    ],
)
def test_ranks_are_checked_by_the_count_and_before_every_checkpoint(
    tmp_path: Path, save_every: int | None, check_every: int | None, clock: tuple[int, ...],
    checked: list[int],
) -> None:  # fmt: skip
    calendar = Calendar(10, 10, None, save_every, 9, None, check_every_steps=check_every)
    checkpoints = Checkpoints(tmp_path)
    seen = []

    def check(step: int) -> Sums:
        assert step not in dict(checkpoints.all()), "written before it was checked"
        seen.append(step)
        return {}

    state = State(parts, check)
    with Duties(Group.alone(), calendar, checkpoints, state, None, Scores(tmp_path)) as mine:
        for step in range(1, 11):
            mine.after(step, Wishes(save=step in clock))
    assert seen == checked
    assert {step for step, _ in checkpoints.all()} <= set(seen)


def test_a_step_that_is_due_for_several_reasons_is_saved_once(tmp_path: Path) -> None:
    calendar = Calendar(6, 3, None, 2, 9, None)
    written = []

    def noted(step: int, sums: Sums, best: Best | None) -> list[Part]:
        written.append(step)
        return parts(step, sums, best)

    def evaluate() -> Evaluation:
        return Evaluation({"f1": 1.0}, {})

    state = State(noted, lambda step: {})
    checkpoints = Checkpoints(tmp_path)
    alone = Group.alone()
    with Duties(alone, calendar, checkpoints, state, evaluate, Scores(tmp_path)) as mine:
        for step in range(1, 7):
            mine.after(step, Wishes(save=step == 6))
        mine.after(6, Wishes(save=True))
    assert written == [2, 3, 4, 6]
    assert [step for step, _ in checkpoints.all()] == written


def test_ranks_that_differ_get_no_checkpoint_and_no_score(tmp_path: Path) -> None:
    calendar = Calendar(10, 1, None, None, 9, None)

    def check(step: int) -> Sums:
        raise StepError("rank 1 differs")

    def never() -> Evaluation:
        raise AssertionError("scored")

    state = State(parts, check)
    mine = Duties(Group.alone(), calendar, Checkpoints(tmp_path), state, never, Scores(tmp_path))
    with pytest.raises(StepError, match="rank 1 differs"):
        mine.after(1, NO_WISHES)
    assert list(tmp_path.iterdir()) == []
