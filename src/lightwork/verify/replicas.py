"""Whether all ranks hold the same model: before the first step, after some, and at any number."""

from __future__ import annotations

from lightwork.comm.group import Group
from lightwork.verify.practice import STEPS, Practice
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.sums import difference, tensor_sums, whole_sum
from lightwork.verify.verdict import (
    RowFailedError,
    Verdict,
    counted,
    gathered,
    listed,
    one_rank,
)

INITIAL = "initial weights"
REPLICAS = "replicas after steps"
SAME_BITS = "same bits at any ranks"

TREE = "tree"
"""The strategy that promises the same bits."""
TREE_STEPS = 2


def initial_weights(subject: Subject, trainee: Trainee) -> Verdict:
    """Every tensor of the model has the same bytes on all ranks before the first step."""
    group = subject.group
    if group.size == 1:
        return one_rank(INITIAL)
    told = gathered(group, lambda: tensor_sums(trainee.weights()))
    wrong = difference(told)
    found = f"{counted(len(told[0]), 'tensor')}, the same on {group.size} ranks"
    return Verdict(INITIAL, not wrong, wrong or found)


def replicas_after_steps(group: Group, practice: Practice | RowFailedError) -> Verdict:
    """After real steps all ranks hold the same weights and optimizer state, and others than
    before."""
    if group.size == 1:
        return one_rank(REPLICAS)
    if isinstance(practice, RowFailedError):
        raise practice
    wrong = difference(practice.weights) or difference(practice.optimizer)
    if wrong:
        return Verdict(REPLICAS, False, f"after {STEPS} steps {wrong}")
    before, after = practice.before[0], practice.weights[0]
    moved = sum(after[name] != before[name] for name in after)
    state = counted(len(practice.optimizer[0]), "tensor")
    return Verdict(
        REPLICAS,
        moved > 0,
        f"{STEPS} steps changed {moved} of {counted(len(after), 'tensor')} of the model; they and "
        f"{state} of the optimizer are the same on {group.size} ranks",
    )


def same_bits(subject: Subject) -> Verdict:
    """With the tree, steps on the first m ranks give the same weights for every m."""
    if subject.strategy != TREE:
        return Verdict(SAME_BITS, None, f"not promised by {subject.strategy}")
    group = subject.group
    if group.size == 1:
        return one_rank(SAME_BITS)
    sums = {size: _sum_at(subject, size) for size in range(1, group.size + 1)}
    others = [size for size in sums if sums[size] != sums[1]]
    steps = f"after {TREE_STEPS} steps the weights"
    if not others:
        found = f"{steps} have the checksum {sums[1]} at 1 … {group.size} ranks"
        return Verdict(SAME_BITS, True, found)
    shown = ", ".join(f"{size}: {value}" for size, value in sums.items())
    found = f"{steps} at {listed(others)} ranks are not those of one rank (by ranks: {shown})"
    if subject.device == "cuda":
        return Verdict(SAME_BITS, None, f"not promised on cuda: {found}")
    return Verdict(SAME_BITS, False, found)


def _sum_at(subject: Subject, size: int) -> str:
    """The checksum of all weights after steps on the first ``size`` ranks alone."""
    part = subject.group.split(range(size))

    def measure() -> str:
        if part is None:
            return ""
        trainee = subject.build(part, True)
        for step in range(trainee.first_step, trainee.first_step + TREE_STEPS):
            trainee.step(step, trainee.learning_rate)
        return whole_sum(tensor_sums(trainee.weights()))

    told: list[str] = gathered(subject.group, measure)[:size]
    if len(set(told)) > 1:
        raise RowFailedError(f"at {size} ranks the ranks themselves differ: {', '.join(told)}")
    return told[0]
