"""Copies and checksums of compiled loops, beside plain slices and the library."""

from __future__ import annotations

from collections.abc import Callable

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.wire.reencoding import machine_code
from srm_common.wire.reencoding.machine_code import SPILLED, put, put_16, spill

numba = pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")


@numba.njit  # type: ignore[untyped-decorator]
def puts(out: machine_code.Bytes, at: int, data: machine_code.Bytes, start: int, length: int) -> None:
    put(out, at, data, start, length)


@numba.njit  # type: ignore[untyped-decorator]
def spills(out: machine_code.Bytes, at: int, data: machine_code.Bytes, start: int, length: int) -> None:
    spill(out, at, data, start, length)


@numba.njit  # type: ignore[untyped-decorator]
def puts_16(out: machine_code.Bytes, at: int, data: machine_code.Bytes, start: int) -> None:
    put_16(out, at, data, start)


@numba.njit  # type: ignore[untyped-decorator]
def checksum(data: machine_code.Bytes, at: int, end: int) -> int:
    return machine_code.crc32c(data, at, end) if machine_code.has_crc32c() else -1


@pytest.mark.parametrize(("compiled", "spilled"), [(puts, 0), (spills, SPILLED)])
@given(st.one_of(st.integers(-1, 70), st.integers(200, 600)), st.integers(0, 9), st.integers(0, 9), st.integers(0, 40))
def test_a_copy_is_a_slice_and_stays_within_its_arrays(
    compiled: Callable[..., None], spilled: int, length: int, at: int, start: int, behind: int
) -> None:
    data = np.random.default_rng(start).integers(0, 256, start + max(length, 0) + behind).astype(np.uint8)
    out = np.full((2, at + max(length, 0) + behind + 32), 7, np.uint8)
    compiled(out[0, :-32], at, data, start, length)
    put(out[1], at, data, start, length)
    end = at + max(length, 0)
    assert (out[0, :end] == out[1, :end]).all()
    assert (out[0, end + spilled :] == 7).all()
    assert (out[0, -32:] == 7).all()


@given(st.binary(min_size=16, max_size=64), st.integers(0, 20), st.data())
def test_sixteen_bytes_are_copied_and_no_more(data: bytes, at: int, choice: st.DataObject) -> None:
    start = choice.draw(st.integers(0, len(data) - 16))
    out = np.full((2, at + 20), 7, np.uint8)
    puts_16(out[0], at, np.frombuffer(data, np.uint8), start)
    put_16(out[1], at, np.frombuffer(data, np.uint8), start)
    assert out[0].tobytes() == out[1].tobytes() == bytes([7] * at) + data[start : start + 16] + bytes([7] * 4)


@given(st.binary(max_size=100), st.integers(0, 20))
def test_the_checksum_is_the_librarys(data: bytes, start: int) -> None:
    start = min(start, len(data))
    found = checksum(np.frombuffer(data, np.uint8), start, len(data))
    assert found == (crc32c.crc32c(data[start:]) if machine_code.HAS_CRC32C else -1)
