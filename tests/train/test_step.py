"""One step over several ranks: the same as on one rank, and failures are everybody's."""

from __future__ import annotations

import logging
import threading

import pytest
import torch

from lightwork.comm.group import Group
from lightwork.errors import SettingsError, StepError
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.telemetry.timing import StepClock
from lightwork.train.optimizer import LocalUpdate
from lightwork.train.replicas import checksum
from tests.ranks import run_as_threads
from tests.train.toy import ToyTask, summing, toy_run

CPU = torch.device("cpu")


def losses(group: Group, steps: int = 24) -> tuple[list[float], list[float]]:
    """Loss and gradient norm of every step, over six epochs with a small last batch."""
    sync = GradientBuckets(AllReduce(group), 64)
    stepper, loader, _ = toy_run(group, sync, ToyTask())
    found, norms = [], []
    for work in loader.work(1, steps):
        outcome = stepper.run(work.step, work, 0.05, StepClock(CPU))
        found.append(outcome.loss)
        norms.append(outcome.grad_norm)
    return found, norms


def test_the_number_of_ranks_does_not_change_what_is_learned() -> None:
    alone = losses(Group.alone())
    first, last = sum(alone[0][:4]), sum(alone[0][-4:])
    assert last < 0.9 * first, "nothing was learned, so nothing was compared"
    for ranks in (2, 3, 5, 8):  # 8 is more than there are shares
        for found in run_as_threads(ranks, losses):
            assert found[0] == pytest.approx(alone[0], rel=1e-9)
            assert found[1] == pytest.approx(alone[1], rel=1e-9)


def test_with_the_tree_every_number_of_ranks_has_the_same_weights() -> None:
    def trained(group: Group) -> str:
        stepper, loader, module = toy_run(group, summing("tree", group), ToyTask())
        for work in loader.work(1, 24):
            stepper.run(work.step, work, 0.05, StepClock(CPU))
        return checksum(module.state_dict().values())

    alone = trained(Group.alone())
    for ranks in (2, 3, 5, 8):  # 8 is more than there are shares
        assert set(run_as_threads(ranks, trained)) == {alone}, ranks


def test_all_clip_by_one_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike devices round the norm differently, and the ranks would part."""
    measure = LocalUpdate.measure
    places: dict[int, int] = {}  # by rank, which is a thread here

    def rounded(update: LocalUpdate, scale: float) -> float:
        own = 1.0 + 1e-6 * places.setdefault(threading.get_ident(), len(places))
        return measure(update, scale) * own

    monkeypatch.setattr(LocalUpdate, "measure", rounded)

    def trained(group: Group) -> tuple[str, list[float]]:
        stepper, loader, module = toy_run(group, summing("all_reduce", group), ToyTask())
        norms = [
            stepper.run(work.step, work, 0.05, StepClock(CPU)).grad_norm
            for work in loader.work(1, 6)
        ]
        return checksum(module.state_dict().values()), norms

    found = run_as_threads(3, trained)
    assert found[1:] == found[:-1]
    assert max(found[0][1]) > 1.0, "nothing was clipped"


def test_one_step_is_what_a_plain_loop_does() -> None:
    sync = GradientBuckets(AllReduce(Group.alone()), 1 << 20)
    task = ToyTask()
    stepper, loader, module = toy_run(Group.alone(), sync, task)
    work = next(loader.work(1, 1))
    plain = type(module)().double()
    plain.load_state_dict(module.state_dict())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in plain.parameters() if p.ndim >= 2], "weight_decay": 0.01},
            {"params": [p for p in plain.parameters() if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=0.05,
    )
    windows = torch.tensor(work.windows).numpy()
    batch = task.collate(None, windows, 8)
    loss = task.loss(plain(batch["x"]), batch) / len(windows)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    optimizer.step()
    outcome = stepper.run(1, work, 0.05, StepClock(CPU))
    assert outcome.loss == pytest.approx(float(loss.detach()))
    for (name, mine), theirs in zip(module.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, msg=name)


def fail(
    group: Group, task: ToyTask, bad_data_rank: int | None = None, strategy: str = "all_reduce"
) -> str:
    """Run three steps; returns the message with which they failed."""
    sync = summing(strategy, group)
    stepper, loader, module = toy_run(group, sync, task)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for work in loader.work(1, 3):
        given = ValueError("torn file") if group.rank == bad_data_rank else work
        try:
            stepper.run(work.step, given, 0.05, StepClock(CPU))
        except StepError as error:
            if work.step == 1:
                for name, value in module.state_dict().items():
                    assert torch.equal(value, before[name]), "a failed step left traces"
            return str(error)
    raise AssertionError("nothing failed")


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="lightwork")


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (RuntimeError("bad kernel"), "RuntimeError: bad kernel"),
        (float("nan"), "the loss is nan"),
        (float("inf"), "the loss is inf"),
    ],
)
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("strategy", ["all_reduce", "tree"])
def test_a_failure_on_one_rank_stops_all_with_the_same_words(
    problem: float | Exception, words: str, ranks: int, strategy: str
) -> None:
    task = ToyTask()
    sync = GradientBuckets(AllReduce(Group.alone()), 64)
    piece = next(toy_run(Group.alone(), sync, task)[1].work(1, 1)).pieces[-1]
    victim = int(piece.windows[0])
    task.poison[victim] = problem
    messages = set(
        run_as_threads(ranks, lambda group: fail(group, task, strategy=strategy), timeout_s=10)
    )
    assert len(messages) == 1
    message = messages.pop()
    assert words in message
    assert f"rank {ranks - 1}: " in message
    named = message.partition("with the examples ")[2].partition(")")[0].split(", ")
    assert set(named) == {f"w{window}" for window in piece.windows}, "only the micro-batch"
    assert message.count("rank ") == 1
    assert "step 1" in message


@pytest.mark.usefixtures("_quiet")
def test_data_that_cannot_be_had_on_one_rank_stops_all() -> None:
    messages = set(run_as_threads(3, lambda group: fail(group, ToyTask(), bad_data_rank=1)))
    assert len(messages) == 1
    assert "rank 1: ValueError: torn file" in messages.pop()


def test_a_micro_batch_far_out_of_line_is_written_down_by_its_rank() -> None:
    """Window 7 costs a hundred times what the others do."""

    def outcomes(group: Group) -> list[tuple[list[int], list[int], float | None, float]]:
        task = ToyTask()
        task.poison[7] = 500.0
        stepper, loader, _ = toy_run(group, GradientBuckets(AllReduce(group), 64), task)
        found = []
        for work in loader.work(1, 4):
            outcome = stepper.run(work.step, work, 0.0, StepClock(CPU))
            found.append((work.windows, outcome.far_windows, outcome.worst_loss, outcome.loss))
        return found

    dirty = 0
    for step in zip(*run_as_threads(2, outcomes), strict=True):
        for windows, far, worst_loss, loss in step:
            if 7 not in windows:
                assert worst_loss is None or bool(far) is (worst_loss > 3 * loss)
                continue
            dirty += 1
            assert 7 in far
            assert set(far) < set(windows), "one micro-batch of several"
            assert worst_loss is not None
            assert worst_loss > 3 * loss
    assert dirty == 1


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    ("problem", "repeats"),
    [(SettingsError("no compiler here"), True), (RuntimeError("bad kernel"), False)],
)
def test_what_somebody_has_to_mend_is_not_tried_again(problem: Exception, repeats: bool) -> None:
    task = ToyTask()
    sync = GradientBuckets(AllReduce(Group.alone()), 64)
    piece = next(toy_run(Group.alone(), sync, task)[1].work(1, 1)).pieces[-1]
    task.poison[int(piece.windows[0])] = problem

    def run(group: Group) -> bool:
        stepper, loader, _ = toy_run(group, summing("all_reduce", group), task)
        with pytest.raises(StepError) as caught:
            stepper.run(1, next(iter(loader.work(1, 1))), 0.05, StepClock(CPU))
        return caught.value.repeats

    assert run_as_threads(2, run) == [repeats, repeats], "on the ranks without it, too"
