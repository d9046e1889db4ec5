"""Varints, against Kafka's own encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.wire.varints import read_varint, write_uvarint, write_varint
from tests.unit.wire.built_batches import varint


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varint_round_trip(value: int) -> None:
    data = write_varint(value)
    assert data == varint(value)
    assert read_varint(b"xx" + data + b"x", 2) == (value, 2 + len(data))


@pytest.mark.parametrize(("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (16384, "808001")])
def test_unsigned_varint(value: int, data: str) -> None:
    assert write_uvarint(value).hex() == data
