"""Which ways to exchange gradients there are, and what of them goes together."""

from __future__ import annotations

from pathlib import Path

from lightwork.settings import identity
from tests.settings.given import load, mistakes


def test_none_of_them_is_another_run(folder: Path) -> None:
    plain = identity(load())
    for given in (
        "sync.strategy=ring", "sync.strategy=tree", "sync.strategy=ddp", "sync.overlap=none",
        "sync.bucket_bytes=auto", "sync.rows=off",
    ):  # fmt: skip
        assert identity(load(given)) == plain, given


def test_ddp_cannot_wait_for_the_end_of_backward(folder: Path) -> None:
    text = mistakes("sync.strategy=ddp", "sync.overlap=none")
    assert "PyTorch's wrapper always sends during backward" in text
    assert load("sync.strategy=ring", "sync.overlap=none").sync.overlap == "none"


def test_buckets_are_a_size_or_auto(folder: Path) -> None:
    assert load("sync.bucket_bytes=auto").sync.bucket_bytes == "auto"
    text = mistakes("sync.bucket_bytes=large")
    assert "sync.bucket_bytes" in text
    assert "auto" in text


def test_rows_are_not_for_the_wrapper_of_ddp(folder: Path) -> None:
    text = mistakes("sync.strategy=ddp", "sync.rows=on")
    assert "PyTorch's wrapper always sends the whole table" in text
    assert "sync.rows=auto" in text
    assert load("sync.strategy=ddp", "sync.rows=auto").sync.rows == "auto"
