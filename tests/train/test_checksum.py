"""What the checksum of a tensor sees, whatever the type, the size and the place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightwork.train import replicas
from lightwork.train.replicas import checksum

DTYPES = [
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn,
]  # fmt: skip
WORDS = replicas._PIECE_WORDS


@contextmanager
def pieces_of(words: int) -> Iterator[None]:
    """Tensors are added up in pieces of so many words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "_PIECE_WORDS", words)
        forget()
        yield
    forget()


def forget() -> None:
    replicas._powers.cache_clear()
    replicas._whole_piece.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Iterator[None]:
    """So that the tensors here have many."""
    with pieces_of(5):
        yield


def sum_of(tensor: Tensor) -> int:
    (value,) = replicas._sums([tensor])
    return value


def of_bytes(content: bytes, dtype: torch.dtype) -> Tensor:
    """A tensor of ``dtype`` with these bytes, less what is no whole element."""
    size = torch.empty((), dtype=dtype).itemsize
    whole = bytearray(content[: len(content) // size * size])
    if dtype == torch.bool:
        whole = bytearray(byte & 1 for byte in whole)
    return torch.frombuffer(whole, dtype=dtype) if whole else torch.empty(0, dtype=dtype)


def by_definition(tensor: Tensor) -> int:
    """The same sum from Python's own whole numbers."""
    size = min(tensor.itemsize, 4)
    kind = {1: np.uint8, 2: np.int16, 4: np.int32}[size]
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    words: list[int] = np.frombuffer(flat.numpy().tobytes(), kind).tolist()
    total = sum(word * pow(replicas._BASE, n, 2**64) for n, word in enumerate(words)) % 2**64
    return total - 2**64 if total >= 2**63 else total


contents = st.binary(max_size=200)
dtypes = st.sampled_from(DTYPES)


@given(contents, dtypes)
def test_it_is_the_polynomial_it_says(content: bytes, dtype: torch.dtype) -> None:
    tensor = of_bytes(content, dtype)
    assert sum_of(tensor) == by_definition(tensor)


@given(contents, dtypes, st.data())
def test_every_flipped_bit_shows(content: bytes, dtype: torch.dtype, data: st.DataObject) -> None:
    tensor = of_bytes(content, dtype)
    if tensor.numel():
        before = sum_of(tensor)
        place = data.draw(st.integers(0, tensor.nbytes - 1))
        bit = data.draw(st.integers(0, 7))
        tensor.view(torch.uint8)[place] ^= 1 << bit
        assert sum_of(tensor) != before


@given(contents, dtypes, st.data())
def test_elements_that_changed_places_show(
    content: bytes, dtype: torch.dtype, data: st.DataObject
) -> None:
    tensor = of_bytes(content, dtype)
    if len(tensor) > 1:
        before, size = sum_of(tensor), tensor.itemsize
        rows = tensor.view(torch.uint8).view(-1, size)
        i, j = data.draw(st.tuples(*[st.integers(0, len(rows) - 1)] * 2))
        differ = not torch.equal(rows[i], rows[j])
        rows[[i, j]] = rows[[j, i]]
        assert (sum_of(tensor) != before) == differ


@given(st.binary(min_size=1, max_size=60), st.binary(max_size=40), dtypes)
def test_stretches_of_one_length_that_changed_places_show(
    stretch: bytes, between: bytes, dtype: torch.dtype
) -> None:
    other = bytes(byte ^ 0x80 for byte in stretch)
    ways = [of_bytes(a + between + b + bytes(8), dtype) for a, b in
            ((stretch, other), (other, stretch))]  # fmt: skip
    same = torch.equal(*(tensor.view(torch.uint8) for tensor in ways))
    assert (sum_of(ways[0]) == sum_of(ways[1])) == same


@given(st.integers(2, 40), st.data())
def test_the_sign_of_zero_shows_wherever_it_moves(size: int, data: st.DataObject) -> None:
    i, j = data.draw(st.tuples(*[st.integers(0, size - 1)] * 2))
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        plain, one, other = torch.zeros(3, size, dtype=dtype)
        one[i], other[j] = -0.0, -0.0
        assert sum_of(plain) != sum_of(one)
        assert (sum_of(one) == sum_of(other)) == (i == j)


def test_the_payload_of_nan_shows() -> None:
    nans = torch.tensor([0x7FC00000, 0x7FC00001, -0x400000], dtype=torch.int32).view(torch.float32)
    assert torch.isnan(nans).all()
    assert len({sum_of(value) for value in nans}) == 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scalars_views_and_nothing_at_all(dtype: torch.dtype) -> None:
    whole = of_bytes(bytes(range(1, 193)), dtype)
    assert sum_of(torch.empty(0, 3, dtype=dtype)) == 0
    assert sum_of(whole[2]) == sum_of(whole[2:3]) != 0
    odd = whole[1:12]  # begins and ends where no four bytes do
    assert sum_of(odd) == sum_of(odd.clone()) == by_definition(odd)
    square = whole[:12].reshape(3, 4)
    assert sum_of(square.T) == sum_of(square.T.contiguous()) != sum_of(square)


def test_the_sign_of_zero_shows_in_large_tensors() -> None:
    """The weakest bit, at distances that powers of two divide."""
    zeros = torch.zeros(4 * WORDS + 3)
    with pieces_of(WORDS):
        found = [sum_of(zeros)]
        for place in (0, 1, WORDS // 2, WORDS, 3 * WORDS, 4 * WORDS, 4 * WORDS + 2):
            zeros[place] = -0.0
            found.append(sum_of(zeros))
            zeros[place] = 0.0
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("exponent", range(31))
def test_powers_differ_in_few_factors_of_two(exponent: int) -> None:
    """So that words of 32 bits that changed places, so far apart, never add up to nothing."""
    difference = (pow(replicas._BASE, 2**exponent, 2**64) - 1) % 2**64
    assert difference & -difference == 2 ** (exponent + 2)


def test_pieces_change_nothing() -> None:
    values = torch.randn(2 * WORDS + 1, generator=torch.Generator().manual_seed(3))
    found = []
    for words in (1000, WORDS):
        with pieces_of(words):
            found.append(sum_of(values))
    assert found[0] == found[1]


@pytest.mark.gpu
@settings(deadline=None, max_examples=50)
@given(contents, dtypes)
def test_a_gpu_gives_the_same(content: bytes, dtype: torch.dtype) -> None:
    tensor = of_bytes(content, dtype)
    assert sum_of(tensor.cuda()) == sum_of(tensor)


def test_the_order_and_number_of_tensors_shows() -> None:
    one, two = torch.ones(2), torch.zeros(2)
    found = [checksum(t) for t in ([one, two], [two, one], [one], [one, two, two[:0]])]
    assert len(set(found)) == 4
    assert all(len(text) == 16 for text in found)
