"""An evaluation that fails on one rank is everybody's failure, and says what to do."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from lightwork.comm.group import Group
from lightwork.errors import StepError
from lightwork.train.evaluate import evaluate
from lightwork.train.model import Model
from tests.ranks import run_as_threads
from tests.train.toy import INITIAL, LENGTHS, ToyTask


class Rows:
    def column(self, name: str) -> np.ndarray:
        assert name == "tokens"
        return LENGTHS


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), "evaluate.batch_tokens"),
        (ValueError("bad shape"), "ValueError: bad shape"),
    ],
)
def test_what_failed_on_one_rank_is_told_by_all(
    problem: Exception, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="lightwork")

    def message(group: Group) -> str:
        task = ToyTask()
        if group.rank == 1:
            task.poison = dict.fromkeys(range(37), problem)
        model = Model(INITIAL, INITIAL, task, torch.device("cpu"), lambda windows: [])
        with pytest.raises(StepError) as caught:
            evaluate(group, model, Rows(), 64)  # type: ignore[arg-type]
        return str(caught.value)

    first, second = run_as_threads(2, message)
    assert first == second
    assert "the evaluation failed. rank 1: " in first
    assert words in first
