"""The switches for equal bits: all set, none of them by halves, and refusals in our words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lightwork.errors import StepError
from lightwork.train.determinism import CUBLAS, refusals_named, set_arithmetic
from tests.ranks import run_as_processes

FRESH = {
    "deterministic": False, "warn_only": False, "fill": True, "cudnn_deterministic": False,
    "cudnn_benchmark": False, "all": "none", "matmul": "none", "conv": "tf32", "rnn": "tf32",
    "cpu": "none", CUBLAS: None,
}  # fmt: skip
EXACT = {"all": "ieee", "matmul": "ieee", "conv": "ieee", "rnn": "ieee", "cpu": "ieee"}
DETERMINISTIC = {
    **FRESH, **EXACT, "deterministic": True, "fill": False, "cudnn_deterministic": True,
}  # fmt: skip


def switches() -> dict[str, object]:
    backends: Any = torch.backends
    filling: Any = torch.utils.deterministic
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill": filling.fill_uninitialized_memory,
        "cudnn_deterministic": backends.cudnn.deterministic,
        "cudnn_benchmark": backends.cudnn.benchmark,
        "all": backends.fp32_precision,
        "matmul": backends.cuda.matmul.fp32_precision,
        "conv": backends.cudnn.conv.fp32_precision,
        "rnn": backends.cudnn.rnn.fp32_precision,
        "cpu": backends.mkldnn.matmul.fp32_precision,
        CUBLAS: os.environ.get(CUBLAS),
    }


def after(device: str, deterministic: bool, workspace: str | None) -> dict[str, object]:
    """The switches of a fresh process after ``set_arithmetic``."""
    os.environ.pop(CUBLAS, None)
    if workspace is not None:
        os.environ[CUBLAS] = workspace
    torch.backends.cudnn.benchmark = deterministic
    set_arithmetic(device, deterministic=deterministic)
    return switches()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("device", "deterministic", "workspace", "wanted"),
    [
        ("cpu", False, None, FRESH),
        ("cpu", True, None, DETERMINISTIC),
        ("cuda:1", False, None, {**FRESH, "matmul": "tf32"}),
        ("cuda:1", True, None, {**DETERMINISTIC, CUBLAS: ":4096:8"}),
        ("cuda:1", True, ":16:8", {**DETERMINISTIC, CUBLAS: ":16:8"}),
        ("cuda:1", True, ":0:0", {**DETERMINISTIC, CUBLAS: ":4096:8"}),
        ("cuda:1", False, ":0:0", {**FRESH, "matmul": "tf32", CUBLAS: ":0:0"}),
    ],
)
def test_all_switches_of_a_process(
    device: str, deterministic: bool, workspace: str | None, wanted: dict[str, object]
) -> None:
    """No CUDA is needed: the switches are PyTorch's own."""
    (found,) = run_as_processes(
        1, f"{__file__}:after", device, deterministic, workspace, join=False
    )
    assert found == wanted


@pytest.fixture
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_deterministic")
def test_what_pytorch_refuses_is_an_error_for_people() -> None:
    with pytest.raises(StepError, match=r"^the model uses put_, which") as caught, refusals_named():
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
    assert not caught.value.joint, "only this rank is known to have failed"
    assert "train.deterministic=false" in str(caught.value)


@pytest.mark.parametrize("error", [StepError("step 1 failed"), RuntimeError("else")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, refusals_named():
        raise error
    assert caught.value is error
