"""Every rank begins with the weights of rank 0 and keeps what the others have, or all say why."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lightwork.comm.group import Group
from lightwork.errors import LaunchError, StepError
from lightwork.train import replicas
from lightwork.train.replicas import (
    check_alike,
    checksum,
    difference,
    receive_tensors,
    send_tensors,
    start_alike,
)
from tests.ranks import run_as_threads

BASE = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
Change = Callable[[dict[str, Tensor]], object]


def model(rank: int) -> nn.Sequential:
    """Another model on every rank, as random heads are."""
    module = copy.deepcopy(BASE)
    for tensor in module.state_dict().values():
        tensor.add_(rank)
    return module


def test_all_get_the_weights_and_buffers_of_rank_0() -> None:
    def start(group: Group) -> str:
        module = model(group.rank)
        start_alike(group, module)
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, BASE.state_dict()[name]), name
        return checksum(module.state_dict().values())

    assert set(run_as_threads(3, start)) == {checksum(BASE.state_dict().values())}
    assert checksum(model(1).state_dict().values()) != checksum(BASE.state_dict().values())


def test_weights_that_arrive_otherwise_are_named_by_all_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(group: Group) -> str:
        module = model(0)
        with pytest.raises(LaunchError) as caught:
            start_alike(group, module)
        return str(caught.value)

    def damaged(group: Group, tensors: object) -> None:
        receive_tensors(group, tensors)  # type: ignore[arg-type]
        if group.rank == 2:
            list(tensors)[1].data[0] += 1  # type: ignore[call-overload]

    monkeypatch.setattr(replicas, "receive_tensors", damaged)
    (message,) = set(run_as_threads(3, start))
    assert "rank 2 differs from the 2 others in 1 of 9 tensors, 0.bias: the connection" in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (nn.Linear(4, 3), "2.bias is [[3]"),
        (nn.Linear(4, 2).double(), "torch.float64"),
        (nn.Linear(4, 2, bias=False), "2.bias is missing there"),
    ],
)
def test_another_structure_is_named_by_all_ranks(change: nn.Module, words: str) -> None:
    def start(group: Group) -> str:
        module = model(0)
        if group.rank == 1:
            module[2] = change
        with pytest.raises(LaunchError) as caught:
            start_alike(group, module)
        return str(caught.value)

    messages = set(run_as_threads(3, start))
    assert len(messages) == 1
    message = messages.pop()
    assert "rank 1 has built another model" in message
    assert words in message


def test_named_tensors_travel_from_rank_0() -> None:
    wanted = {"a/exp_avg": torch.arange(6.0).view(2, 3), "a/step": torch.tensor(7.0)}

    def send(group: Group) -> None:
        given = {name: t.clone() for name, t in wanted.items()} if group.rank == 0 else {}
        got = send_tensors(group, given)
        assert list(got) == list(wanted)
        for name, tensor in got.items():
            assert torch.equal(tensor, wanted[name])

    run_as_threads(3, send)


def held(group: Group, changes: dict[int, Change]) -> dict[str, Tensor]:
    """What a rank holds, but for the change that is planted on it."""
    tensors = {"w": torch.ones(3), "b": torch.zeros(2), "w/step": torch.tensor(4.0)}
    if group.rank in changes:
        changes[group.rank](tensors)
    return tensors


def flip(tensors: dict[str, Tensor]) -> object:
    return tensors["w"].view(torch.int32)[2].bitwise_xor_(1)


def negate(tensors: dict[str, Tensor]) -> object:
    return tensors["b"].neg_()


def lose(tensors: dict[str, Tensor]) -> object:
    return tensors.pop("w/step")


def gain(tensors: dict[str, Tensor]) -> object:
    return tensors.update(more=torch.ones(1))


def flip_and_negate(tensors: dict[str, Tensor]) -> object:
    return flip(tensors), negate(tensors)


@pytest.mark.parametrize(
    ("ranks", "changes", "words"),
    [
        (3, {1: flip}, "rank 1 differs from the 2 others in 1 of 3 tensors, w"),
        (3, {0: negate}, "rank 0 differs from the 2 others in 1 of 3 tensors, b"),
        (5, {1: flip, 4: negate}, "ranks 1, 4 differ from the 3 others in 2 of 3 tensors, the "
            "first of them w"),
        (3, {2: flip_and_negate}, "rank 2 differs from the 2 others in 2 of 3 tensors, the first "
            "of them w"),
        (2, {1: flip}, "as many ranks hold one thing as another; they differ in 1 of 3 tensors, w"),
        (3, {1: lose}, "rank 1 differs from the 2 others in 1 of 3 tensors, w/step"),
        (3, {1: gain}, "rank 1 differs from the 2 others in 1 of 4 tensors, more"),
        (3, {}, None),
    ],
)  # fmt: skip
def test_which_ranks_and_tensors_differ(
    ranks: int, changes: dict[int, Change], words: str | None
) -> None:
    def look(group: Group) -> str | None:
        return difference(group, held(group, changes))

    assert set(run_as_threads(ranks, look)) == {words}


def test_all_stop_with_the_same_words() -> None:
    def check(group: Group) -> str:
        check_alike(group, lambda: held(group, {}), 8)
        with pytest.raises(StepError, match="the same command") as caught:
            check_alike(group, lambda: held(group, {2: flip}), 12)
        assert caught.value.joint
        return str(caught.value)

    (message,) = set(run_as_threads(3, check))
    assert message.startswith("after step 12 the ranks no longer hold the same: rank 2 differs")


def test_as_long_as_they_hold_the_same_one_message_of_eight_bytes_travels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    whole = Group.all_gather

    def noted(group: Group, output: Tensor, tensor: Tensor) -> object:
        sent.append(tensor.nbytes)
        return whole(group, output, tensor)

    monkeypatch.setattr(Group, "all_gather", noted)
    run_as_threads(2, lambda group: difference(group, held(group, {})))
    assert sent == [8, 8]


def test_alone_nothing_is_done() -> None:
    def never() -> dict[str, Tensor]:
        raise AssertionError("there is nobody to compare with")

    check_alike(Group.alone(), never, 100)
