"""Checksums that are carried from one header to the next, against those of all bytes."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.wire.checksum import carried

HEADERS = st.binary(min_size=40, max_size=40)


@given(old=HEADERS, new=HEADERS, body=st.binary(max_size=5000))
def test_any_headers_and_body(old: bytes, new: bytes, body: bytes) -> None:
    assert carried(crc32c(old + body), crc32c(old), crc32c(new), len(body)) == crc32c(new + body)


@pytest.mark.parametrize(
    "length", [0, 1, 15, 16, 17, 4096, 65_535, 1 << 20, (1 << 24) - 1, 1 << 24, (1 << 24) + 7, 20 << 20]
)
def test_any_length(length: int) -> None:
    chance = random.Random(length)
    old, new, body = chance.randbytes(40), chance.randbytes(40), chance.randbytes(length)
    assert carried(crc32c(old + body), crc32c(old), crc32c(new), length) == crc32c(new + body)


@given(body=st.binary(min_size=1, max_size=200), bit=st.integers(0, 1599))
def test_a_flipped_bit_stays_visible(body: bytes, bit: int) -> None:
    old, new = bytes(40), bytes(range(40))
    crc = carried(crc32c(old + body), crc32c(old), crc32c(new), len(body))
    hurt = bytearray(body)
    hurt[bit // 8 % len(body)] ^= 1 << bit % 8
    assert crc != crc32c(new + hurt)
