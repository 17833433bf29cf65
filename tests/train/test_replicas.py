"""Every rank begins with the weights of rank 0, or all say why not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from lightwork.comm.group import Group
from lightwork.errors import LaunchError
from lightwork.train.replicas import checksum, send_tensors, start_alike
from tests.ranks import run_as_threads

BASE = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def model(rank: int) -> nn.Sequential:
    """Another model on every rank, as random heads are."""
    module = copy.deepcopy(BASE)
    for tensor in module.state_dict().values():
        tensor.add_(rank)
    return module


def test_all_get_the_weights_and_buffers_of_rank_0() -> None:
    def start(group: Group) -> str:
        module = model(group.rank)
        told = start_alike(group, module)
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, BASE.state_dict()[name]), name
        return told

    sums = run_as_threads(3, start)
    assert len(set(sums)) == 1
    assert sums[0] == checksum(BASE.state_dict().values())
    assert sums[0] != checksum(model(1).state_dict().values())


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
