"""What the tests of answering leave as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Opening a model sets the compute threads of the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
